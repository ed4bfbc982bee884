//! Request headers as they are encoded on the wire: literals, never compressed, in any order and with any error that
//! a test needs.

use super::frame::Frame;

const CALL: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
pub const HEALTH_CHECK: &str = "/grpc.health.v1.Health/Check";
pub const HEALTH_WATCH: &str = "/grpc.health.v1.Health/Watch";
pub const REFLECTION: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

/// Pairs of name and value.
#[derive(Clone, Debug)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    /// The headers of a rate limit call.
    pub fn call() -> Self {
        Self::of(CALL)
    }

    /// The headers of a call of any method.
    pub fn of(path: &str) -> Self {
        let pairs = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "hivemind"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ];
        Self(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec())
    }

    /// An empty list.
    pub fn none() -> Self {
        Self(Vec::new())
    }

    /// Replaces the value of a name, or adds a pair.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        match self.0.iter_mut().find(|(key, _)| key == name) {
            Some((_, old)) => value.clone_into(old),
            None => self.0.push((name.to_owned(), value.to_owned())),
        }
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.0.retain(|(known, _)| known != name);
        self
    }

    /// Encodes the headers as literals without indexing.
    pub fn block(&self) -> Vec<u8> {
        self.0.iter().flat_map(|(name, value)| literal(0x00, name, value)).collect()
    }

    /// Encodes the headers as literals with indexing; the last one is at the head of the dynamic table.
    pub fn indexed_block(&self) -> Vec<u8> {
        self.0.iter().flat_map(|(name, value)| literal(0x40, name, value)).collect()
    }

    pub fn frame(&self, stream: u32) -> Frame {
        Frame::headers(stream, self.block())
    }
}

/// A reference to a table entry; the dynamic table starts at 62.
pub fn known(place: u8) -> u8 {
    0x80 + place
}

fn literal(kind: u8, name: &str, value: &str) -> Vec<u8> {
    [&[kind][..], &text(name), &text(value)].concat()
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    // RFC 7541, 5.1: a number that does not fit into seven bits continues in groups of seven, low bits first.
    match text.len() {
        short @ 0..127 => bytes.push(u8::try_from(short).unwrap()),
        long => {
            bytes.push(127);
            let mut rest = long - 127;
            while rest >= 128 {
                bytes.push(u8::try_from(rest % 128 + 128).unwrap());
                rest /= 128;
            }
            bytes.push(u8::try_from(rest).unwrap());
        }
    }
    bytes.extend(text.as_bytes());
    bytes
}

/// A message with its gRPC prefix: not compressed, length, bytes.
pub fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0][..], &length, message].concat()
}
