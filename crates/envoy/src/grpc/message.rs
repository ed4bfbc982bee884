//! The message of a unary call, collected from its frames.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use tonic::Status;

/// Maximum size of a decision request.
pub(super) const MAX_MESSAGE: usize = 256 << 10;
/// A flag and the message length.
pub(super) const PREFIX: usize = 5;

const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const IDENTITY: &str = "identity";

/// The bytes received so far.
#[derive(Debug, Default)]
pub(super) struct UnaryMessage {
    /// The bytes, if they arrived in one piece, as nearly always.
    single: Bytes,
    /// The bytes, if they arrived in several pieces.
    pieces: Vec<u8>,
}

impl UnaryMessage {
    /// Adds a piece, or reports that the message is too long.
    pub(super) fn add(&mut self, piece: Bytes) -> Result<(), Status> {
        if self.single.is_empty() && self.pieces.is_empty() {
            self.single = piece;
        } else {
            if self.pieces.is_empty() {
                self.pieces.extend_from_slice(&std::mem::take(&mut self.single));
            }
            self.pieces.extend_from_slice(&piece);
        }
        match self.declared() {
            Some((_, length)) if length > MAX_MESSAGE => Err(too_large(length)),
            _ if self.bytes().len() > PREFIX + MAX_MESSAGE => Err(too_large(self.bytes().len() - PREFIX)),
            _ => Ok(()),
        }
    }

    /// Copies the received bytes while the rest is awaited, and returns their number: a slice, even of one byte,
    /// keeps the whole read buffer in memory.
    pub(super) fn detach(&mut self) -> usize {
        if !self.single.is_empty() {
            self.pieces = std::mem::take(&mut self.single).to_vec();
        }
        self.pieces.len()
    }

    fn bytes(&self) -> &[u8] {
        if self.pieces.is_empty() { &self.single } else { &self.pieces }
    }

    /// The flag and length in the prefix.
    fn declared(&self) -> Option<(u8, usize)> {
        let (&[flag, a, b, c, d], _) = self.bytes().split_first_chunk::<PREFIX>()?;
        Some((flag, u32::from_be_bytes([a, b, c, d]) as usize))
    }

    /// The complete message without its prefix.
    pub(super) fn read(&self, headers: &HeaderMap) -> Result<&[u8], Status> {
        let Some((flag, length)) = self.declared() else {
            return Err(Status::internal("the call ended before its message"));
        };
        match flag {
            0 => {}
            1 => return Err(compressed(headers)),
            _ => {
                return Err(Status::internal(format!("unknown message flag {flag}; use 0 or 1")));
            }
        }
        let message = self.bytes().get(PREFIX..).unwrap_or_default();
        match message.len() {
            whole if whole == length => Ok(message),
            more if more > length => Err(Status::internal("a call has one message, but more bytes follow")),
            part => Err(Status::internal(format!("the message ended after {part} of {length} bytes"))),
        }
    }
}

fn too_large(length: usize) -> Status {
    Status::resource_exhausted(format!(
        "a message may have at most {MAX_MESSAGE} bytes; this one has {length}"
    ))
}

/// The headers that a waiting call still needs: whether its message has an encoding.
pub(super) fn retained_headers(headers: &HeaderMap) -> HeaderMap {
    let is_encoded = headers.get(ENCODING).is_some_and(|encoding| encoding != IDENTITY);
    is_encoded.then_some((ENCODING, HeaderValue::from_static("other"))).into_iter().collect()
}

/// The protocol distinguishes two errors: an unsupported encoding, and none.
fn compressed(headers: &HeaderMap) -> Status {
    if headers.get(ENCODING).is_none_or(|encoding| encoding == IDENTITY) {
        return Status::internal("the message is marked as compressed, but grpc-encoding is missing");
    }
    let mut status = Status::unimplemented("compression is not supported; send the message uncompressed");
    let identity = tonic::metadata::MetadataValue::from_static(IDENTITY);
    status.metadata_mut().insert("grpc-accept-encoding", identity);
    status
}
