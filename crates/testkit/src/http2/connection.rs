//! One connection: reads frames in order and sorts the responses by stream.

mod bodies;
mod flood;

use super::answer::{Answer, Pairs};
use super::frame::{ACK, END_HEADERS, END_STREAM, Frame, FrameType, PADDED, PRIORITY, Setting};
use super::headers::{Headers, framed};
use crate::{Server, within};
use httlib_hpack::Decoder;
use prost::Message;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The default window.
const WINDOW: i64 = 65_535;

pub struct Connection {
    pub socket: TcpStream,
    unread: Vec<u8>,
    decoder: Decoder<'static>,
    /// A header block that continues in the next frame.
    block: Vec<u8>,
    pub streams: BTreeMap<u32, Answer>,
    /// The first byte of each block of headers.
    pub block_starts: Vec<u8>,
    /// The number of headers that came with incremental indexing.
    pub block_entries: usize,
    pub pongs: Vec<Vec<u8>>,
    /// The reason of each `GOAWAY`, in order, with the last stream it promises to process.
    pub go_aways: Vec<(u32, u32)>,
    /// The server's limit of concurrent streams, once it has sent it.
    pub max_streams: Option<u32>,
    /// Whether the server gets window updates for the bytes that it has sent.
    pub grants: bool,
    /// Whether the preface was sent. Before that, not even SETTINGS are acknowledged.
    spoken: bool,
    next_stream: u32,
    /// The remaining send window of the connection, and of each stream relative to its initial window.
    window: i64,
    windows: BTreeMap<u32, i64>,
    first_window: i64,
}

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// `GOAWAY` with this reason, and then closed.
    WentAway(u32),
    /// Closed or reset without a `GOAWAY`.
    Closed,
}

impl Connection {
    /// A socket on which nothing was sent yet.
    pub async fn silent(server: &Server) -> Self {
        Self::silent_at(server.grpc).await
    }

    /// The same, to any server that speaks HTTP/2 from the first byte.
    pub async fn silent_at(address: SocketAddr) -> Self {
        let socket = within("a connection", TcpStream::connect(address)).await.unwrap();
        socket.set_nodelay(true).unwrap();
        Self::on(socket)
    }

    /// An open socket on which nothing was sent yet.
    pub fn on(socket: TcpStream) -> Self {
        Self {
            socket,
            unread: Vec::new(),
            decoder: Decoder::default(),
            block: Vec::new(),
            streams: BTreeMap::new(),
            block_starts: Vec::new(),
            block_entries: 0,
            pongs: Vec::new(),
            go_aways: Vec::new(),
            max_streams: None,
            grants: true,
            spoken: false,
            next_stream: 1,
            window: WINDOW,
            windows: BTreeMap::new(),
            first_window: WINDOW,
        }
    }

    pub async fn open(server: &Server) -> Self {
        Self::open_with(server, &[]).await
    }

    /// Connects with settings of the test. Nothing is awaited: the server may accept slowly.
    pub async fn open_with(server: &Server, settings: &[(u16, u32)]) -> Self {
        Self::open_at(server.grpc, settings).await
    }

    pub async fn open_at(address: SocketAddr, settings: &[(u16, u32)]) -> Self {
        let mut connection = Self { spoken: true, ..Self::silent_at(address).await };
        connection.send_bytes(&[PREFACE, &Frame::settings(settings).bytes()].concat()).await;
        connection
    }

    /// Sends the preface on an open socket; none if it is closed.
    pub async fn try_open_on(mut socket: TcpStream) -> Option<Self> {
        socket.write_all(&[PREFACE, &Frame::settings(&[]).bytes()].concat()).await.ok()?;
        Some(Self { spoken: true, ..Self::on(socket) })
    }

    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        within("the server to read", self.socket.write_all(bytes)).await.unwrap();
    }

    pub async fn send(&mut self, frames: &[Frame]) {
        let bytes: Vec<u8> = frames.iter().flat_map(Frame::bytes).collect();
        self.send_bytes(&bytes).await;
    }

    /// The number of the next stream.
    pub fn stream(&mut self) -> u32 {
        let stream = self.next_stream;
        self.next_stream += 2;
        stream
    }

    /// Begins a call; the test sends the body.
    pub async fn begin(&mut self, headers: &Headers) -> u32 {
        let stream = self.stream();
        self.send(&[headers.frame(stream)]).await;
        stream
    }

    /// Sends a call with its whole body.
    pub async fn start(&mut self, headers: &Headers, body: &[u8]) -> u32 {
        let stream = self.stream();
        self.send(&[headers.frame(stream), Frame::data(stream, body).end()]).await;
        stream
    }

    /// Sends a call with its whole body and waits for the response.
    pub async fn call(&mut self, headers: &Headers, body: &[u8]) -> Answer {
        let stream = self.start(headers, body).await;
        self.answer(stream).await
    }

    /// Sends one request, with descriptors in the short form, and returns the response in the short form.
    pub async fn ask(&mut self, domain: &str, text: &str) -> String {
        let message = crate::request(domain, text).encode_to_vec();
        self.call(&Headers::call(), &framed(&message)).await.summary()
    }

    /// Waits for the end of a stream.
    pub async fn answer(&mut self, stream: u32) -> Answer {
        loop {
            if let Some(answer) = self.streams.get(&stream).filter(|answer| answer.ended) {
                return answer.clone();
            }
            let what = format!("the end of stream {stream}");
            let frame = within(&what, self.read()).await;
            assert!(frame.is_some(), "closed without {what}; {:?}", self.go_aways);
        }
    }

    /// Sends a PING and waits for its acknowledgment.
    pub async fn ping(&mut self) {
        let before = self.pongs.len();
        self.send(&[Frame::ping(*b"hivemind")]).await;
        while self.pongs.len() == before {
            within("a pong", self.read()).await.expect("a pong");
        }
    }

    /// Waits for the next `GOAWAY` and returns its reason.
    pub async fn gone_away(&mut self) -> u32 {
        let before = self.go_aways.len();
        while self.go_aways.len() == before {
            within("a GOAWAY", self.read()).await.expect("a GOAWAY");
        }
        self.go_aways.last().unwrap().0
    }

    /// The summary of a refused stream, or none if the connection ended instead.
    pub async fn refusal(&mut self, stream: u32) -> Option<String> {
        loop {
            if let Some(answer) =
                self.streams.get(&stream).filter(|answer| !answer.blocks.is_empty() || answer.ended)
            {
                return Some(answer.summary());
            }
            within("a refusal", self.read()).await?;
        }
    }

    /// Waits until a stream was reset or its connection went away, and returns the reason.
    pub async fn failed(&mut self, stream: u32) -> u32 {
        loop {
            let reset = self.streams.get(&stream).and_then(|answer| answer.reset);
            if let Some(reason) = reset.or(self.go_aways.first().map(|(reason, _)| *reason)) {
                return reason;
            }
            within("an error", self.read()).await.expect("an error");
        }
    }

    /// Reads until the connection is closed.
    pub async fn ended(&mut self) -> ConnectionEnd {
        while within("the connection's end", self.read()).await.is_some() {}
        self.go_aways.last().map_or(ConnectionEnd::Closed, |(reason, _)| ConnectionEnd::WentAway(*reason))
    }

    /// Reads one frame and sorts it; none if the connection is closed.
    pub async fn read(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.parse() {
                self.sort(&frame);
                self.reply(&frame).await;
                return Some(frame);
            }
            let read = self.socket.read_buf(&mut self.unread).await;
            // A reset is an end as well.
            if read.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    fn parse(&mut self) -> Option<Frame> {
        let head = self.unread.get(..9)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let (kind, flags) = (head[3], head[4]);
        let stream = u32::from_be_bytes(head[5..9].try_into().unwrap());
        let payload = self.unread.get(9..9 + length)?.to_vec();
        self.unread.drain(..9 + length);
        Some(Frame { kind, flags, stream, payload })
    }

    /// Acknowledges SETTINGS and PING; errors are ignored because the server may be gone.
    async fn reply(&mut self, frame: &Frame) {
        let size = u32::try_from(frame.payload.len()).unwrap();
        let reply = match frame.kind {
            _ if !self.spoken => return,
            FrameType::Settings if !frame.has(ACK) => Frame::new(FrameType::Settings, ACK, 0, []),
            FrameType::Ping if !frame.has(ACK) => Frame::new(FrameType::Ping, ACK, 0, &frame.payload[..]),
            FrameType::Data if self.grants && size > 0 => Frame::window_update(0, size),
            _ => return,
        };
        let _ = self.socket.write_all(&reply.bytes()).await;
    }

    fn sort(&mut self, frame: &Frame) {
        assert!(frame.payload.len() <= 16_384, "a frame that is larger than we allowed");
        match frame.kind {
            FrameType::Data => {
                assert!(!frame.has(PADDED), "{frame:?}");
                self.streams.entry(frame.stream).or_default().body.extend(&frame.payload);
            }
            FrameType::Headers => {
                assert!(!frame.has(PADDED | PRIORITY), "{frame:?}");
                self.block.clone_from(&frame.payload);
            }
            FrameType::Continuation => self.block.extend(&frame.payload),
            FrameType::Reset => {
                let answer = self.streams.entry(frame.stream).or_default();
                (answer.reset, answer.ended) = (Some(frame.word(0)), true);
            }
            FrameType::Ping if frame.has(ACK) => self.pongs.push(frame.payload.clone()),
            FrameType::GoAway => self.go_aways.push((frame.word(4), frame.word(0))),
            FrameType::Settings => {
                self.first_window =
                    frame.setting(Setting::InitialWindowSize).map_or(self.first_window, i64::from);
                self.max_streams = frame.setting(Setting::MaxConcurrentStreams).or(self.max_streams);
            }
            FrameType::WindowUpdate if frame.stream == 0 => self.window += i64::from(frame.word(0)),
            FrameType::WindowUpdate => {
                *self.windows.entry(frame.stream).or_default() += i64::from(frame.word(0));
            }
            _ => {}
        }
        if matches!(frame.kind, FrameType::Headers | FrameType::Continuation) && frame.has(END_HEADERS) {
            let pairs = self.decode();
            self.streams.entry(frame.stream).or_default().blocks.push(pairs);
        }
        if matches!(frame.kind, FrameType::Headers | FrameType::Data) && frame.has(END_STREAM) {
            self.streams.entry(frame.stream).or_default().ended = true;
        }
    }

    fn decode(&mut self) -> Pairs {
        let mut pairs = Vec::new();
        let mut block = std::mem::take(&mut self.block);
        self.block_starts.push(block[0]);
        self.decoder.decode(&mut block, &mut pairs).expect("headers");
        self.block_entries += pairs.iter().filter(|(.., flags)| flags & Decoder::WITH_INDEXING != 0).count();
        let text = |bytes| String::from_utf8(bytes).expect("text");
        pairs.into_iter().map(|(name, value, _)| (text(name), text(value))).collect()
    }
}
