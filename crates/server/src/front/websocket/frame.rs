//! Frames of a WebSocket (RFC 6455, section 5.2): the head of one is read, and the one kind
//! that the gateway says itself, Close, is written. Payloads are nobody's business here.

use std::fmt;

/// First byte, length, 64 bits of more length, mask.
pub(super) const LONGEST_HEAD: usize = 14;

const CLOSE: u8 = 0x8;
const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;
/// What the payload of a control frame may be, and what 7 bits of length can say.
const MOST_CONTROL: u64 = 125;
/// What is left of it for a reason, after the code.
const MOST_REASON: usize = 123;

/// What is said of a frame before its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) opcode: u8,
    pub(super) is_final: bool,
    pub(super) is_masked: bool,
    /// The bytes of the head itself, the mask's key included.
    pub(super) length: usize,
    /// The bytes that follow it.
    pub(super) payload: u64,
}

impl Head {
    /// The head at the start of `bytes`; none if they end before it does.
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
        let head = Self { opcode: first & 0x0F, is_final: first & FIN != 0, is_masked, length, payload };
        if payload < shortest || payload > i64::MAX.unsigned_abs() {
            return Err(Violation::Length);
        }
        if head.is_control() && payload > MOST_CONTROL {
            return Err(Violation::LongControl);
        }
        Ok(Some(head))
    }

    pub(super) fn is_control(&self) -> bool {
        self.opcode & 0x8 != 0
    }

    pub(super) fn is_close(&self) -> bool {
        self.opcode == CLOSE
    }
}

/// What a client may not send. Two readers could make different messages of it, so nobody gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// A length with its highest bit set, or written with more bytes than it needs.
    Length,
    /// A control frame of more than 125 bytes.
    LongControl,
    /// A control frame in fragments.
    FragmentedControl,
    /// A frame of a client that is not masked.
    Unmasked,
    /// An opcode that means nothing.
    Opcode,
    /// A fragment of a message that was not begun.
    NothingToContinue,
    /// A message begun within another.
    Interleaved,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Length => "The length of a frame is not written as RFC 6455 has it.",
            Self::LongControl => "A control frame has more than 125 bytes.",
            Self::FragmentedControl => "A control frame is fragmented.",
            Self::Unmasked => "A frame of the client is not masked.",
            Self::Opcode => "A frame has an opcode that means nothing.",
            Self::NothingToContinue => "A fragment continues no message.",
            Self::Interleaved => "A message begins within another.",
        })
    }
}

/// Why a connection ends, for the one at its other end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Farewell<'a> {
    pub(super) code: u16,
    pub(super) reason: &'a str,
}

impl Farewell<'_> {
    pub(super) const GOING_AWAY: u16 = 1001;
    pub(super) const PROTOCOL_ERROR: u16 = 1002;

    /// The Close frame of a server, with as much of the reason as a control frame can hold.
    pub(super) fn to_client(&self) -> Vec<u8> {
        let reason = self.reason.get(..self.reason.floor_char_boundary(MOST_REASON)).unwrap_or_default();
        let mut frame = vec![FIN | CLOSE, u8::try_from(2 + reason.len()).unwrap_or_default()];
        frame.extend_from_slice(&self.code.to_be_bytes());
        frame.extend_from_slice(reason.as_bytes());
        frame
    }

    /// The Close frame of a client. Masks keep what a script chooses from looking like HTTP on the
    /// wire; nobody chooses these two bytes, so a mask of zeros does.
    pub(super) fn to_upstream(&self) -> Vec<u8> {
        let mut frame = vec![FIN | CLOSE, MASKED | 2, 0, 0, 0, 0];
        frame.extend_from_slice(&self.code.to_be_bytes());
        frame
    }
}
