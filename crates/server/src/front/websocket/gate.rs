//! What of the bytes that came may go on. Both gates walk from head to head and keep one number,
//! how much is left of the frame they are in: whatever a client sends, memory stays the same.

use super::frame::{Head, Violation};
use hivemind_tower::websocket::{Close, MessageLimiter};

/// Looks at what came before it goes on.
pub(super) trait Gate {
    /// What to do with `bytes`, which begin where those of the last look ended or were kept.
    fn look(&mut self, bytes: &[u8]) -> Look;

    /// Whether nothing more is to be read.
    fn is_over(&self) -> bool;
}

/// So many bytes pass, and so many at the end are to be shown again with what follows them.
/// Those between are for nobody.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) pass: usize,
    pub(super) keep: usize,
    pub(super) stop: Option<Stop>,
}

/// Why nothing more of a client's may pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A message too many.
    Limited(Close),
    /// What the application might read otherwise than the gate does.
    Malformed(Violation),
}

/// Charges messages. The limiter, or a count in a test.
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

/// From the client to the upstream.
pub(super) struct ClientGate<L> {
    /// None where nothing is counted: then nothing is read.
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

    /// From now on, the client's Close is all that is waited for.
    pub(super) fn await_close(&mut self) {
        self.awaits_close = true;
    }

    /// Messages that were let through.
    pub(super) fn messages(&self) -> u64 {
        self.counting.as_ref().map_or(0, |counting| counting.messages)
    }

    pub(super) fn is_counting(&self) -> bool {
        self.counting.is_some()
    }
}

impl ClientGate<Nothing> {
    /// Passes nothing from the start, and waits for the client's Close.
    pub(super) fn refusing() -> Self {
        let counting = Counting { is_refused: true, ..Counting::new(Nothing) };
        Self { counting: Some(counting), awaits_close: true }
    }
}

/// Reads a client's frames: each is whole in its head and charged before a byte of it passes.
struct Counting<L> {
    limiter: L,
    /// What is still to come of the present frame.
    left: u64,
    in_message: bool,
    messages: u64,
    /// Nothing passes any more; frames are followed for the client's Close only.
    is_refused: bool,
    /// The head of the client's Close was seen: it has said its last.
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
                    // Where the next frame begins is not known any more: all is payload from here.
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

    /// Whether the frame is one that a client may send now, and has something left for.
    fn admit(&mut self, head: &Head) -> Result<(), Stop> {
        self.in_message = follows(self.in_message, head).map_err(Stop::Malformed)?;
        self.limiter.charge(head.opcode).map_err(Stop::Limited)?;
        self.messages += u64::from(matches!(head.opcode, 1 | 2));
        Ok(())
    }
}

/// Whether a message is unfinished after this frame of a client, which was told if one was before.
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

/// From the upstream to the client. All passes; but where a frame ends is known, since a Close
/// of ours in the middle of one would be taken for its payload.
pub(super) struct ServerGate {
    mode: Mode,
    left: u64,
    /// The upstream has said Close itself, after which there must not be another.
    has_closed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Following,
    /// These are no frames, or none that can be followed: all passes, and nothing of ours may be added.
    Blind,
    /// Until the end of the present frame.
    Finishing,
    /// What still comes is for nobody.
    Silent,
}

impl ServerGate {
    pub(super) fn following() -> Self {
        Self { mode: Mode::Following, left: 0, has_closed: false }
    }

    /// Ends what passes with the present frame. Says whether a Close of ours may follow it.
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

/// What is after those of `bytes` that are of the present frame, of which so much is left.
fn payload<'a>(left: &mut u64, bytes: &'a [u8]) -> &'a [u8] {
    let here = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
    *left -= u64::try_from(here).unwrap_or_default();
    bytes.get(here..).unwrap_or_default()
}
