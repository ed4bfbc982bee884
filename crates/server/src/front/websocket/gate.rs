//! Frame gates: which bytes may pass. Both gates parse frame headers and store only how much is left of the current
//! frame, so memory does not depend on the traffic.

use super::frame::{Head, Violation};
use hivemind_tower::websocket::{Close, MessageLimiter};

/// Inspects bytes before they pass.
pub(super) trait Gate {
    /// Decides about `bytes`, which start where the previous call ended or kept bytes.
    fn look(&mut self, bytes: &[u8]) -> Look;

    /// Whether nothing more must be read.
    fn is_over(&self) -> bool;
}

/// The number of bytes that pass, and the number at the end that must be presented again. The bytes between them are
/// dropped.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) pass: usize,
    pub(super) keep: usize,
    pub(super) stop: Option<Stop>,
}

/// Why nothing more from the client may pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The message limit was exceeded.
    Limited(Close),
    /// The application might parse it differently from the gate.
    Malformed(Violation),
}

/// Charges messages: the limiter, or a counter in tests.
pub(super) trait Charge {
    fn charge(&mut self, opcode: u8) -> Result<(), Close>;
}

impl Charge for MessageLimiter {
    fn charge(&mut self, opcode: u8) -> Result<(), Close> {
        self.check_frame(opcode)
    }
}

/// For a client that was refused before its first message.
pub(super) struct Nothing;

impl Charge for Nothing {
    fn charge(&mut self, _opcode: u8) -> Result<(), Close> {
        Ok(())
    }
}

/// Gate from the client to the upstream.
pub(super) struct ClientGate<L> {
    /// `None` if messages are not counted: then nothing is parsed.
    counting: Option<Counting<L>>,
    awaits_close: bool,
}

impl<L: Charge> Gate for ClientGate<L> {
    fn look(&mut self, bytes: &[u8]) -> Look {
        match &mut self.counting {
            None => Look { pass: bytes.len(), ..Look::default() },
            Some(counting) => counting.look(bytes),
        }
    }

    fn is_over(&self) -> bool {
        self.awaits_close && self.counting.as_ref().is_some_and(Counting::has_closed)
    }
}

impl<L: Charge> ClientGate<L> {
    pub(super) fn new(limiter: Option<L>) -> Self {
        Self { counting: limiter.map(Counting::new), awaits_close: false }
    }

    /// From here on, only the client's Close is awaited.
    pub(super) fn await_close(&mut self) {
        self.awaits_close = true;
    }

    /// Messages that were forwarded.
    pub(super) fn messages(&self) -> u64 {
        self.counting.as_ref().map_or(0, |counting| counting.messages)
    }

    pub(super) fn is_counting(&self) -> bool {
        self.counting.is_some()
    }
}

impl ClientGate<Nothing> {
    /// Passes nothing, and waits for the client's Close.
    pub(super) fn refusing() -> Self {
        let counting = Counting { is_refused: true, ..Counting::new(Nothing) };
        Self { counting: Some(counting), awaits_close: true }
    }
}

/// Parses client frames: each header is complete, and charged, before any byte of its frame passes.
struct Counting<L> {
    limiter: L,
    /// Bytes left of the current frame.
    left: u64,
    in_message: bool,
    messages: u64,
    /// Nothing passes any more; frames are only parsed to find the client's Close.
    is_refused: bool,
    /// The header of the client's Close was seen.
    is_closing: bool,
}

impl<L: Charge> Counting<L> {
    fn new(limiter: L) -> Self {
        Self { limiter, left: 0, in_message: false, messages: 0, is_refused: false, is_closing: false }
    }

    fn has_closed(&self) -> bool {
        self.is_closing && self.left == 0
    }

    fn look(&mut self, bytes: &[u8]) -> Look {
        let mut look = Look::default();
        let mut rest = bytes;
        loop {
            rest = payload(&mut self.left, rest);
            if !self.is_refused {
                look.pass = bytes.len() - rest.len();
            }
            if rest.is_empty() || self.has_closed() {
                return look;
            }
            let head = match Head::read(rest) {
                Ok(Some(head)) => head,
                Ok(None) => {
                    look.keep = rest.len();
                    return look;
                }
                Err(violation) => {
                    // The start of the next frame is unknown: treat everything as payload.
                    self.left = u64::MAX;
                    self.refuse(&mut look, Stop::Malformed(violation));
                    continue;
                }
            };
            if !self.is_refused
                && let Err(stop) = self.admit(&head)
            {
                self.refuse(&mut look, stop);
            }
            self.is_closing |= head.is_close();
            self.left = head.payload;
            rest = rest.get(head.length..).unwrap_or_default();
            if !self.is_refused {
                look.pass = bytes.len() - rest.len();
            }
        }
    }

    fn refuse(&mut self, look: &mut Look, stop: Stop) {
        if !self.is_refused {
            self.is_refused = true;
            look.stop = Some(stop);
        }
    }

    /// Checks that the client may send this frame now, and that its limit allows it.
    fn admit(&mut self, head: &Head) -> Result<(), Stop> {
        self.in_message = follows(self.in_message, head).map_err(Stop::Malformed)?;
        self.limiter.charge(head.opcode).map_err(Stop::Limited)?;
        self.messages += u64::from(matches!(head.opcode, 1 | 2));
        Ok(())
    }
}

/// Whether a message is unfinished after this client frame, given whether one was unfinished before.
fn follows(in_message: bool, head: &Head) -> Result<bool, Violation> {
    if !head.is_masked {
        return Err(Violation::Unmasked);
    }
    match (head.opcode, in_message) {
        (0x0, false) => Err(Violation::NothingToContinue),
        (0x1 | 0x2, true) => Err(Violation::Interleaved),
        (0x0..=0x2, _) => Ok(!head.is_final),
        (0x8..=0xA, _) if head.is_final => Ok(in_message),
        (0x8..=0xA, _) => Err(Violation::FragmentedControl),
        _ => Err(Violation::Opcode),
    }
}

/// Gate from the upstream to the client. Everything passes, but frame ends are tracked: our Close inside of a frame
/// would be read as its payload.
pub(super) struct ServerGate {
    mode: Mode,
    left: u64,
    /// The upstream has sent a Close, after which no other may follow.
    has_closed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Following,
    /// The bytes cannot be parsed as frames: everything passes, and nothing of ours may be added.
    Blind,
    /// Until the end of the current frame.
    Finishing,
    /// Further bytes are dropped.
    Silent,
}

impl ServerGate {
    pub(super) fn following() -> Self {
        Self { mode: Mode::Following, left: 0, has_closed: false }
    }

    /// Stops after the current frame. Returns whether our Close may follow it.
    pub(super) fn finish(&mut self) -> bool {
        let can_speak = self.mode != Mode::Blind && !self.has_closed;
        self.mode = if can_speak { Mode::Finishing } else { Mode::Silent };
        can_speak
    }

    pub(super) fn silence(&mut self) {
        self.mode = Mode::Silent;
    }

    fn follow(&mut self, bytes: &[u8]) -> Look {
        let mut rest = bytes;
        loop {
            rest = payload(&mut self.left, rest);
            match Head::read(rest) {
                Ok(None) => return Look { pass: bytes.len() - rest.len(), keep: rest.len(), stop: None },
                Ok(Some(head)) => {
                    self.has_closed |= head.is_close();
                    self.left = head.payload;
                    rest = rest.get(head.length..).unwrap_or_default();
                }
                Err(_) => {
                    self.mode = Mode::Blind;
                    return Look { pass: bytes.len(), ..Look::default() };
                }
            }
        }
    }
}

impl Gate for ServerGate {
    fn look(&mut self, bytes: &[u8]) -> Look {
        match self.mode {
            Mode::Following => self.follow(bytes),
            Mode::Blind => Look { pass: bytes.len(), ..Look::default() },
            Mode::Finishing => {
                let rest = payload(&mut self.left, bytes);
                Look { pass: bytes.len() - rest.len(), ..Look::default() }
            }
            Mode::Silent => Look::default(),
        }
    }

    fn is_over(&self) -> bool {
        self.mode == Mode::Finishing && self.left == 0
    }
}

/// The bytes after the payload of the current frame.
fn payload<'a>(left: &mut u64, bytes: &'a [u8]) -> &'a [u8] {
    let here = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
    *left -= u64::try_from(here).unwrap_or_default();
    bytes.get(here..).unwrap_or_default()
}
