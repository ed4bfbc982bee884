//! WebSocket frames (RFC 6455, section 5.2): parses frame headers, and writes Close frames. Payloads are not
//! interpreted.

use std::fmt;

/// First byte, length, 64-bit extended length, mask.
pub(super) const MAX_FRAME_HEADER: usize = 14;

const CLOSE: u8 = 0x8;
const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;
/// Maximum payload of a control frame, which is also the maximum of a 7-bit length.
const MAX_CONTROL_PAYLOAD: u64 = 125;
/// What is left of that for a reason, after the code.
const MAX_CLOSE_REASON: usize = 123;

/// A frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHeader {
    pub(super) opcode: u8,
    pub(super) is_final: bool,
    pub(super) is_masked: bool,
    /// The length of the header itself, including the mask.
    pub(super) length: usize,
    /// The length of the payload.
    pub(super) payload: u64,
}

impl FrameHeader {
    /// Parses the header at the start of `bytes`; `None` if it is incomplete.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<Self>, Violation> {
        let [first, second, rest @ ..] = bytes else { return Ok(None) };
        let (extended, shortest, payload) = match second & !MASKED {
            126 => match rest.first_chunk() {
                Some(length) => (2, 126, u64::from(u16::from_be_bytes(*length))),
                None => return Ok(None),
            },
            127 => match rest.first_chunk() {
                Some(length) => (8, 1 << 16, u64::from_be_bytes(*length)),
                None => return Ok(None),
            },
            length => (0, 0, u64::from(length)),
        };
        let is_masked = second & MASKED != 0;
        let length = 2 + extended + if is_masked { 4 } else { 0 };
        if bytes.len() < length {
            return Ok(None);
        }
        let header = Self { opcode: first & 0x0F, is_final: first & FIN != 0, is_masked, length, payload };
        if payload < shortest || payload > i64::MAX.unsigned_abs() {
            return Err(Violation::Length);
        }
        if header.is_control() && payload > MAX_CONTROL_PAYLOAD {
            return Err(Violation::LongControl);
        }
        Ok(Some(header))
    }

    pub(super) fn is_control(&self) -> bool {
        self.opcode & 0x8 != 0
    }

    pub(super) fn is_close(&self) -> bool {
        self.opcode == CLOSE
    }
}

/// An invalid client frame. Two parsers could read different messages from it, so it is never forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A length with its highest bit set, or encoded with more bytes than needed.
    Length,
    /// A control frame of more than 125 bytes.
    LongControl,
    /// A control frame in fragments.
    FragmentedControl,
    /// A client frame without a mask.
    Unmasked,
    /// A reserved opcode.
    Opcode,
    /// A continuation without a message.
    NothingToContinue,
    /// A message within another one.
    Interleaved,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Length => "The length of a frame is not encoded as in RFC 6455.",
            Self::LongControl => "A control frame is longer than 125 bytes.",
            Self::FragmentedControl => "A control frame is fragmented.",
            Self::Unmasked => "A client frame is not masked.",
            Self::Opcode => "A frame has a reserved opcode.",
            Self::NothingToContinue => "A continuation frame has no message.",
            Self::Interleaved => "A message begins within another one.",
        })
    }
}

/// Code and reason of a Close frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CloseFrame<'a> {
    pub(super) code: u16,
    pub(super) reason: &'a str,
}

impl CloseFrame<'_> {
    pub(super) const GOING_AWAY: u16 = 1001;
    pub(super) const PROTOCOL_ERROR: u16 = 1002;

    /// The Close frame of a server, with the reason truncated to the length of a control frame.
    pub(super) fn to_client(&self) -> Vec<u8> {
        let reason = self.reason.get(..self.reason.floor_char_boundary(MAX_CLOSE_REASON)).unwrap_or_default();
        let mut frame = vec![FIN | CLOSE, u8::try_from(2 + reason.len()).unwrap_or_default()];
        frame.extend_from_slice(&self.code.to_be_bytes());
        frame.extend_from_slice(reason.as_bytes());
        frame
    }

    /// The Close frame of a client. Masks prevent a script's payload from looking like HTTP on the wire; these two
    /// bytes are fixed, so a mask of zeros is enough.
    pub(super) fn to_upstream(&self) -> Vec<u8> {
        let mut frame = vec![FIN | CLOSE, MASKED | 2, 0, 0, 0, 0];
        frame.extend_from_slice(&self.code.to_be_bytes());
        frame
    }
}
