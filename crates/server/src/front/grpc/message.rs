//! The one message of a unary call, gathered from as many frames as it comes in.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use tonic::Status;

/// No request for a decision is longer.
pub(super) const LARGEST: usize = 256 << 10;
/// A flag, and the length of what follows.
pub(super) const PREFIX: usize = 5;

const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const IDENTITY: &str = "identity";

/// What has come of it.
#[derive(Debug, Default)]
pub(super) struct Message {
    /// All of it, where it came in one piece, as it nearly always does.
    whole: Bytes,
    /// All of it where it did not.
    pieces: Vec<u8>,
}

impl Message {
    /// Takes another piece, or says that the message is too long already.
    pub(super) fn add(&mut self, piece: Bytes) -> Result<(), Status> {
        if self.whole.is_empty() && self.pieces.is_empty() {
            self.whole = piece;
        } else {
            if self.pieces.is_empty() {
                self.pieces.extend_from_slice(&std::mem::take(&mut self.whole));
            }
            self.pieces.extend_from_slice(&piece);
        }
        match self.declared() {
            Some((_, length)) if length > LARGEST => Err(too_large(length)),
            _ if self.bytes().len() > PREFIX + LARGEST => Err(too_large(self.bytes().len() - PREFIX)),
            _ => Ok(()),
        }
    }

    /// Makes what has come its own while the rest is waited for, and says how much that is:
    /// a piece of what was read keeps all of it in memory, be it a single byte.
    pub(super) fn hold(&mut self) -> usize {
        if !self.whole.is_empty() {
            self.pieces = std::mem::take(&mut self.whole).to_vec();
        }
        self.pieces.len()
    }

    fn bytes(&self) -> &[u8] {
        if self.pieces.is_empty() { &self.whole } else { &self.pieces }
    }

    /// The flag and the length that it says it has.
    fn declared(&self) -> Option<(u8, usize)> {
        let (&[flag, a, b, c, d], _) = self.bytes().split_first_chunk::<PREFIX>()?;
        Some((flag, u32::from_be_bytes([a, b, c, d]) as usize))
    }

    /// The message without its prefix, once all has come.
    pub(super) fn read(&self, headers: &HeaderMap) -> Result<&[u8], Status> {
        let Some((flag, length)) = self.declared() else {
            return Err(Status::internal("the call ended before its message"));
        };
        match flag {
            0 => {}
            1 => return Err(compressed(headers)),
            _ => {
                return Err(Status::internal(format!(
                    "a message begins with the flag {flag}; known are 0 and 1"
                )));
            }
        }
        let message = self.bytes().get(PREFIX..).unwrap_or_default();
        match message.len() {
            whole if whole == length => Ok(message),
            more if more > length => Err(Status::internal("a call has one message; more follows this one")),
            part => Err(Status::internal(format!("the message ended after {part} of {length} bytes"))),
        }
    }
}

fn too_large(length: usize) -> Status {
    Status::resource_exhausted(format!("a message has at most {LARGEST} bytes; this one has {length}"))
}

/// What is left to read of the headers of a call that waits: whether its message has an encoding.
pub(super) fn still_to_read(headers: &HeaderMap) -> HeaderMap {
    let is_encoded = headers.get(ENCODING).is_some_and(|encoding| encoding != IDENTITY);
    is_encoded.then_some((ENCODING, HeaderValue::from_static("other"))).into_iter().collect()
}

/// The protocol tells two mistakes apart: an encoding that is not known here, and none at all.
fn compressed(headers: &HeaderMap) -> Status {
    if headers.get(ENCODING).is_none_or(|encoding| encoding == IDENTITY) {
        return Status::internal("the message is marked as compressed, and no grpc-encoding says how");
    }
    let mut status = Status::unimplemented("the message is compressed; send it as it is");
    let identity = tonic::metadata::MetadataValue::from_static(IDENTITY);
    status.metadata_mut().insert("grpc-accept-encoding", identity);
    status
}
