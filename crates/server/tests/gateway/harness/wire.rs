//! One end of a connection, driven by hand: a client's or an upstream's, over TCP or TLS.
//! It sends any bytes, and reads whole messages or single bytes, each under a deadline.

use super::message::{Message, pair};
use hivemind_testkit::within;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

pub(crate) struct Wire {
    stream: Box<dyn Stream>,
    unread: Vec<u8>,
}

impl Wire {
    pub(crate) fn over(stream: impl Stream + 'static) -> Self {
        Self { stream: Box::new(stream), unread: Vec::new() }
    }

    pub(crate) async fn to(address: SocketAddr) -> Self {
        let socket = within("a connection", TcpStream::connect(address)).await.unwrap();
        socket.set_nodelay(true).unwrap();
        Self::over(socket)
    }

    /// From one of the addresses of loopback, so that a test can be several clients.
    pub(crate) async fn from(client: &str, address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(client.parse::<IpAddr>().unwrap(), 0)).unwrap();
        let socket = within("a connection", socket.connect(address)).await.unwrap();
        socket.set_nodelay(true).unwrap();
        Self::over(socket)
    }

    /// Takes little at a time, so that what is not read fills no large buffer of the kernel.
    pub(crate) async fn narrow(address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(64 << 10).unwrap();
        Self::over(within("a connection", socket.connect(address)).await.unwrap())
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        within("the other side to read", self.stream.write_all(bytes.as_ref())).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Sends where the other side may have closed already.
    pub(crate) async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        within("the other side to read", self.stream.write_all(bytes.as_ref())).await?;
        self.stream.flush().await
    }

    /// Sends until the other side takes no more, and says how much it took: nothing is taken within `quiet`.
    pub(crate) async fn fill(&mut self, most: usize, quiet: Duration) -> usize {
        let piece = vec![b'x'; 16 << 10];
        let mut sent = 0;
        while sent < most {
            match tokio::time::timeout(quiet, self.stream.write(&piece[..piece.len().min(most - sent)])).await
            {
                Ok(written) => sent += written.expect("still open"),
                Err(_) => break,
            }
        }
        sent
    }

    /// Says that nothing more comes from here.
    pub(crate) async fn finish(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// A request or an answer, and all of its body; nothing if the connection ended before one.
    pub(crate) async fn request(&mut self) -> Option<Message> {
        let mut message = self.head().await?;
        self.body_of(&mut message, false).await;
        Some(message)
    }

    /// The answer, with its body, to anything but HEAD.
    pub(crate) async fn answer(&mut self) -> Message {
        let mut message = self.head().await.expect("an answer");
        if !message.is_bodiless() {
            self.body_of(&mut message, true).await;
        }
        message
    }

    /// A head alone; nothing if the connection ended before it began.
    pub(crate) async fn head(&mut self) -> Option<Message> {
        loop {
            if let Some(end) = self.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = self.take(end + 4);
                let head = String::from_utf8_lossy(&head[..end]).into_owned();
                return Some(Message::of_head(&head));
            }
            if !self.more("a head").await {
                let left = String::from_utf8_lossy(&self.unread);
                assert!(left.is_empty(), "closed within a head: {left:?}");
                return None;
            }
        }
    }

    async fn body_of(&mut self, message: &mut Message, to_the_end: bool) {
        if message.is_chunked() {
            loop {
                let size = self.line().await;
                let size = usize::from_str_radix(&size, 16).unwrap_or_else(|_| panic!("a size: {size:?}"));
                if size == 0 {
                    break;
                }
                let chunk = self.bytes(size).await;
                message.body.extend(chunk);
                assert_eq!(self.line().await, "", "a chunk ends with its line");
            }
            loop {
                match self.line().await.as_str() {
                    "" => break,
                    line => message.trailers.push(pair(line)),
                }
            }
        } else if let Some(length) = message.length() {
            message.body = self.bytes(length).await;
        } else if to_the_end {
            message.body = self.rest().await;
        }
    }

    /// A line, without its end.
    pub(crate) async fn line(&mut self) -> String {
        loop {
            if let Some(end) = self.unread.windows(2).position(|two| two == b"\r\n") {
                let line = self.take(end + 2);
                return String::from_utf8(line[..end].to_vec()).unwrap();
            }
            assert!(self.more("a line").await, "closed within a line");
        }
    }

    pub(crate) async fn bytes(&mut self, count: usize) -> Vec<u8> {
        while self.unread.len() < count {
            assert!(self.more("bytes").await, "closed after {} of {count} bytes", self.unread.len());
        }
        self.take(count)
    }

    /// Counts bytes until there were so many or the end came, and keeps none.
    pub(crate) async fn skip(&mut self, most: u64) -> u64 {
        let mut count = u64::try_from(self.take(self.unread.len()).len()).unwrap();
        while count < most && self.more("bytes").await {
            count += u64::try_from(self.take(self.unread.len()).len()).unwrap();
        }
        count
    }

    /// All that comes until the other side closes, be it by a reset.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        while self.more("the end").await {}
        self.take(self.unread.len())
    }

    /// Waits for the end of the connection, before which nothing more may come.
    pub(crate) async fn closed(&mut self) {
        let rest = self.rest().await;
        assert!(rest.is_empty(), "more came: {:?}", String::from_utf8_lossy(&rest));
    }

    /// Whether something comes within a time, be it the end.
    pub(crate) async fn is_quiet(&mut self, time: Duration) -> bool {
        self.unread.is_empty()
            && tokio::time::timeout(time, self.stream.read_buf(&mut self.unread)).await.is_err()
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        let rest = self.unread.split_off(count);
        std::mem::replace(&mut self.unread, rest)
    }

    /// Reads something more; false at the end.
    async fn more(&mut self, what: &str) -> bool {
        self.unread.reserve(64 << 10);
        within(what, self.stream.read_buf(&mut self.unread)).await.unwrap_or(0) > 0
    }
}
