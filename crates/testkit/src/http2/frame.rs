//! An HTTP/2 frame: nine bytes of header and any payload.

pub const END_STREAM: u8 = 0x1;
pub const ACK: u8 = 0x1;
pub const END_HEADERS: u8 = 0x4;
pub const PADDED: u8 = 0x8;
pub const PRIORITY: u8 = 0x20;

/// The frame types.
#[expect(non_snake_case, non_upper_case_globals, reason = "they read like the variants of an enum")]
pub mod FrameType {
    pub const Data: u8 = 0;
    pub const Headers: u8 = 1;
    pub const Priority: u8 = 2;
    pub const Reset: u8 = 3;
    pub const Settings: u8 = 4;
    pub const Push: u8 = 5;
    pub const Ping: u8 = 6;
    pub const GoAway: u8 = 7;
    pub const WindowUpdate: u8 = 8;
    pub const Continuation: u8 = 9;
}

/// Why a stream or a connection ended.
pub mod reason {
    pub const NO_ERROR: u32 = 0;
    pub const PROTOCOL_ERROR: u32 = 1;
    pub const FLOW_CONTROL_ERROR: u32 = 3;
    pub const STREAM_CLOSED: u32 = 5;
    pub const FRAME_SIZE_ERROR: u32 = 6;
    pub const REFUSED_STREAM: u32 = 7;
    pub const CANCEL: u32 = 8;
    pub const COMPRESSION_ERROR: u32 = 9;
    pub const ENHANCE_YOUR_CALM: u32 = 11;
}

/// The setting identifiers.
#[expect(non_snake_case, non_upper_case_globals, reason = "they read like the variants of an enum")]
pub mod Setting {
    pub const HeaderTableSize: u16 = 1;
    pub const EnablePush: u16 = 2;
    pub const MaxConcurrentStreams: u16 = 3;
    pub const InitialWindowSize: u16 = 4;
    pub const MaxFrameSize: u16 = 5;
    pub const MaxHeaderListSize: u16 = 6;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    pub fn new(kind: u8, flags: u8, stream: u32, payload: impl Into<Vec<u8>>) -> Self {
        Self { kind, flags, stream, payload: payload.into() }
    }

    pub fn data(stream: u32, payload: impl Into<Vec<u8>>) -> Self {
        Self::new(FrameType::Data, 0, stream, payload)
    }

    /// A complete header block that leaves the stream open.
    pub fn headers(stream: u32, block: impl Into<Vec<u8>>) -> Self {
        Self::new(FrameType::Headers, END_HEADERS, stream, block)
    }

    pub fn reset(stream: u32, reason: u32) -> Self {
        Self::new(FrameType::Reset, 0, stream, reason.to_be_bytes())
    }

    pub fn settings(pairs: &[(u16, u32)]) -> Self {
        let pair = |(key, value): &(u16, u32)| [&key.to_be_bytes()[..], &value.to_be_bytes()].concat();
        Self::new(FrameType::Settings, 0, 0, pairs.iter().flat_map(pair).collect::<Vec<_>>())
    }

    pub fn ping(payload: [u8; 8]) -> Self {
        Self::new(FrameType::Ping, 0, 0, payload)
    }

    pub fn window_update(stream: u32, increment: u32) -> Self {
        Self::new(FrameType::WindowUpdate, 0, stream, increment.to_be_bytes())
    }

    /// The value of one setting in a SETTINGS frame.
    pub fn setting(&self, key: u16) -> Option<u32> {
        let pair = self.payload.chunks(6).find(|pair| pair.starts_with(&key.to_be_bytes()))?;
        Some(u32::from_be_bytes(pair[2..].try_into().unwrap()))
    }

    /// The same frame with `END_STREAM`.
    pub fn end(mut self) -> Self {
        self.flags |= END_STREAM;
        self
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Four bytes of the payload as a number.
    pub fn word(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.payload[at..at + 4].try_into().unwrap())
    }

    pub fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.payload.len()).unwrap().to_be_bytes();
        let head = [length[1], length[2], length[3], self.kind, self.flags];
        [&head[..], &self.stream.to_be_bytes(), &self.payload].concat()
    }
}
