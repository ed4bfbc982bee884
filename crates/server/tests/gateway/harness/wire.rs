//! One end of a connection, driven by hand: a client's or an upstream's, over TCP or TLS.
//! It sends any bytes and reads messages or bytes, each under a deadline.

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

    /// From a given loopback address, so that a test can act as several clients.
    pub(crate) async fn from(client: &str, address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(client.parse::<IpAddr>().unwrap(), 0)).unwrap();
        let socket = within("a connection", socket.connect(address)).await.unwrap();
        socket.set_nodelay(true).unwrap();
        Self::over(socket)
    }

    /// With a small receive buffer, so that unread data does not fill large kernel buffers.
    pub(crate) async fn narrow(address: SocketAddr) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(64 << 10).unwrap();
        Self::over(within("a connection", socket.connect(address)).await.unwrap())
    }

    pub(crate) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        within("the other side to read", self.stream.write_all(bytes.as_ref())).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// Sends bytes to a peer that may have closed already.
    pub(crate) async fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        within("the other side to read", self.stream.write_all(bytes.as_ref())).await?;
        self.stream.flush().await
    }

    /// Sends until the peer has accepted nothing for `quiet`, and returns the number of accepted bytes.
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

    /// Closes the sending direction.
    pub(crate) async fn finish(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// A message with its body; none if the connection ended before one.
    pub(crate) async fn request(&mut self) -> Option<Message> {
        let mut message = self.head().await?;
        self.body_of(&mut message, false).await;
        Some(message)
    }

    /// The response, with its body, to any request except HEAD.
    pub(crate) async fn answer(&mut self) -> Message {
        let mut message = self.head().await.expect("an answer");
        if !message.is_bodiless() {
            self.body_of(&mut message, true).await;
        }
        message
    }

    /// A head alone; none if the connection ended before it began.
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

    /// A line without its line break.
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

    /// Counts and discards up to `most` bytes, or up to the end.
    pub(crate) async fn skip(&mut self, most: u64) -> u64 {
        let mut count = u64::try_from(self.take(self.unread.len()).len()).unwrap();
        while count < most && self.more("bytes").await {
            count += u64::try_from(self.take(self.unread.len()).len()).unwrap();
        }
        count
    }

    /// All bytes until the peer closes or resets the connection.
    pub(crate) async fn rest(&mut self) -> Vec<u8> {
        while self.more("the end").await {}
        self.take(self.unread.len())
    }

    /// Waits for the end of the connection; no byte may arrive before it.
    pub(crate) async fn closed(&mut self) {
        let rest = self.rest().await;
        assert!(rest.is_empty(), "more came: {:?}", String::from_utf8_lossy(&rest));
    }

    /// Whether nothing arrives within a time, not even the end.
    pub(crate) async fn is_quiet(&mut self, time: Duration) -> bool {
        self.unread.is_empty()
            && tokio::time::timeout(time, self.stream.read_buf(&mut self.unread)).await.is_err()
    }

    fn take(&mut self, count: usize) -> Vec<u8> {
        let rest = self.unread.split_off(count);
        std::mem::replace(&mut self.unread, rest)
    }

    /// Reads more bytes; false at the end.
    async fn more(&mut self, what: &str) -> bool {
        self.unread.reserve(64 << 10);
        within(what, self.stream.read_buf(&mut self.unread)).await.unwrap_or(0) > 0
    }
}
