//! Frame gates: which bytes may pass. Both gates parse frame headers and store only how much is left of the current
//! frame, so memory does not depend on the traffic.

use super::frame::{FrameHeader, Violation};
use super::ping_limit::PingLimit;
use hivemind_tower::websocket::{Close, MessageLimiter};

/// Inspects bytes before they pass.
pub(super) trait FrameGate {
    /// Decides about `bytes`, which start where the previous call ended or kept bytes.
    fn inspect(&mut self, bytes: &[u8]) -> GateDecision;

    /// Whether nothing more must be read.
    fn is_finished(&self) -> bool;
}

/// The number of bytes that pass, and the number at the end that must be presented again. The bytes between them are
/// dropped.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct GateDecision {
    pub(super) pass: usize,
    pub(super) keep: usize,
    pub(super) stop: Option<GateStop>,
}

/// Why nothing more from the client may pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateStop {
    /// The message limit was exceeded.
    Limited(Close),
    /// The client sends more pings and pongs than allowed.
    TooManyPings,
    /// The application might parse it differently from the gate.
    Malformed(Violation),
}

/// Charges messages: the limiter, or a counter in tests.
pub(super) trait MessageCharger {
    fn charge(&mut self, opcode: u8) -> Result<(), Close>;
}

impl MessageCharger for MessageLimiter {
    fn charge(&mut self, opcode: u8) -> Result<(), Close> {
        self.check_frame(opcode)
    }
}

/// For a client that was refused before its first message.
pub(super) struct NoCharge;

impl MessageCharger for NoCharge {
    fn charge(&mut self, _opcode: u8) -> Result<(), Close> {
        Ok(())
    }
}

/// Gate from the client to the upstream.
pub(super) struct ClientGate<L> {
    /// `None` if messages are not counted: then nothing is parsed.
    frames: Option<ClientFrames<L>>,
    awaits_close: bool,
}

impl<L: MessageCharger> FrameGate for ClientGate<L> {
    fn inspect(&mut self, bytes: &[u8]) -> GateDecision {
        match &mut self.frames {
            None => GateDecision { pass: bytes.len(), ..GateDecision::default() },
            Some(frames) => frames.inspect(bytes),
        }
    }

    fn is_finished(&self) -> bool {
        self.awaits_close && self.frames.as_ref().is_some_and(ClientFrames::has_closed)
    }
}

impl<L: MessageCharger> ClientGate<L> {
    pub(super) fn new(limiter: Option<L>) -> Self {
        Self { frames: limiter.map(ClientFrames::new), awaits_close: false }
    }

    /// With a limit of pings and pongs, where frames are parsed.
    pub(super) fn with_ping_limit(mut self, pings: PingLimit) -> Self {
        if let Some(frames) = &mut self.frames {
            frames.pings = Some(pings);
        }
        self
    }

    /// From here on, only the client's Close is awaited.
    pub(super) fn await_close(&mut self) {
        self.awaits_close = true;
    }

    /// Messages that were forwarded.
    pub(super) fn messages(&self) -> u64 {
        self.frames.as_ref().map_or(0, |frames| frames.messages)
    }

    pub(super) fn is_counting(&self) -> bool {
        self.frames.is_some()
    }
}

impl ClientGate<NoCharge> {
    /// Passes nothing, and waits for the client's Close.
    pub(super) fn refused() -> Self {
        let frames = ClientFrames { is_refused: true, ..ClientFrames::new(NoCharge) };
        Self { frames: Some(frames), awaits_close: true }
    }
}

/// Parses client frames: each header is complete, and charged, before any byte of its frame passes.
struct ClientFrames<L> {
    limiter: L,
    pings: Option<PingLimit>,
    /// Bytes left of the current frame.
    left: u64,
    in_message: bool,
    messages: u64,
    /// Nothing passes any more; frames are only parsed to find the client's Close.
    is_refused: bool,
    /// The header of the client's Close was seen.
    is_closing: bool,
}

impl<L: MessageCharger> ClientFrames<L> {
    fn new(limiter: L) -> Self {
        Self {
            limiter,
            pings: None,
            left: 0,
            in_message: false,
            messages: 0,
            is_refused: false,
            is_closing: false,
        }
    }

    fn has_closed(&self) -> bool {
        self.is_closing && self.left == 0
    }

    fn inspect(&mut self, bytes: &[u8]) -> GateDecision {
        let mut decision = GateDecision::default();
        let mut rest = bytes;
        loop {
            rest = payload(&mut self.left, rest);
            if !self.is_refused {
                decision.pass = bytes.len() - rest.len();
            }
            if rest.is_empty() || self.has_closed() {
                return decision;
            }
            let header = match FrameHeader::read(rest) {
                Ok(Some(header)) => header,
                Ok(None) => {
                    decision.keep = rest.len();
                    return decision;
                }
                Err(violation) => {
                    // The start of the next frame is unknown: treat everything as payload.
                    self.left = u64::MAX;
                    self.refuse(&mut decision, GateStop::Malformed(violation));
                    continue;
                }
            };
            if !self.is_refused
                && let Err(stop) = self.admit(&header)
            {
                self.refuse(&mut decision, stop);
            }
            self.is_closing |= header.is_close();
            self.left = header.payload;
            rest = rest.get(header.length..).unwrap_or_default();
            if !self.is_refused {
                decision.pass = bytes.len() - rest.len();
            }
        }
    }

    fn refuse(&mut self, decision: &mut GateDecision, stop: GateStop) {
        if !self.is_refused {
            self.is_refused = true;
            decision.stop = Some(stop);
        }
    }

    /// Checks that the client may send this frame now, and that its limit allows it.
    fn admit(&mut self, header: &FrameHeader) -> Result<(), GateStop> {
        self.in_message = in_message_after(self.in_message, header).map_err(GateStop::Malformed)?;
        if matches!(header.opcode, 0x9 | 0xA)
            && let Some(pings) = &mut self.pings
            && !pings.charge(crate::now())
        {
            return Err(GateStop::TooManyPings);
        }
        self.limiter.charge(header.opcode).map_err(GateStop::Limited)?;
        self.messages += u64::from(matches!(header.opcode, 1 | 2));
        Ok(())
    }
}

/// Whether a message is unfinished after this client frame, given whether one was unfinished before.
fn in_message_after(in_message: bool, header: &FrameHeader) -> Result<bool, Violation> {
    if !header.is_masked {
        return Err(Violation::Unmasked);
    }
    match (header.opcode, in_message) {
        (0x0, false) => Err(Violation::NothingToContinue),
        (0x1 | 0x2, true) => Err(Violation::Interleaved),
        (0x0..=0x2, _) => Ok(!header.is_final),
        (0x8..=0xA, _) if header.is_final => Ok(in_message),
        (0x8..=0xA, _) => Err(Violation::FragmentedControl),
        _ => Err(Violation::Opcode),
    }
}

/// Gate from the upstream to the client. Everything passes, but frame ends are tracked: our Close inside of a frame
/// would be read as its payload.
pub(super) struct ServerGate {
    mode: ServerGateMode,
    left: u64,
    /// The upstream has sent a Close, after which no other may follow.
    has_closed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ServerGateMode {
    Parsing,
    /// The bytes cannot be parsed as frames: everything passes, and nothing of ours may be added.
    PassThrough,
    /// Until the end of the current frame.
    Finishing,
    /// Further bytes are dropped.
    Dropping,
}

impl ServerGate {
    pub(super) fn new() -> Self {
        Self { mode: ServerGateMode::Parsing, left: 0, has_closed: false }
    }

    /// Stops after the current frame. Returns whether our Close may follow it.
    pub(super) fn finish(&mut self) -> bool {
        let can_close = self.mode != ServerGateMode::PassThrough && !self.has_closed;
        self.mode = if can_close { ServerGateMode::Finishing } else { ServerGateMode::Dropping };
        can_close
    }

    pub(super) fn silence(&mut self) {
        self.mode = ServerGateMode::Dropping;
    }

    fn track_frames(&mut self, bytes: &[u8]) -> GateDecision {
        let mut rest = bytes;
        loop {
            rest = payload(&mut self.left, rest);
            match FrameHeader::read(rest) {
                Ok(None) => {
                    return GateDecision { pass: bytes.len() - rest.len(), keep: rest.len(), stop: None };
                }
                Ok(Some(header)) => {
                    self.has_closed |= header.is_close();
                    self.left = header.payload;
                    rest = rest.get(header.length..).unwrap_or_default();
                }
                Err(_) => {
                    self.mode = ServerGateMode::PassThrough;
                    return GateDecision { pass: bytes.len(), ..GateDecision::default() };
                }
            }
        }
    }
}

impl FrameGate for ServerGate {
    fn inspect(&mut self, bytes: &[u8]) -> GateDecision {
        match self.mode {
            ServerGateMode::Parsing => self.track_frames(bytes),
            ServerGateMode::PassThrough => GateDecision { pass: bytes.len(), ..GateDecision::default() },
            ServerGateMode::Finishing => {
                let rest = payload(&mut self.left, bytes);
                GateDecision { pass: bytes.len() - rest.len(), ..GateDecision::default() }
            }
            ServerGateMode::Dropping => GateDecision::default(),
        }
    }

    fn is_finished(&self) -> bool {
        self.mode == ServerGateMode::Finishing && self.left == 0
    }
}

/// The bytes after the payload of the current frame.
fn payload<'a>(left: &mut u64, bytes: &'a [u8]) -> &'a [u8] {
    let here = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
    *left -= u64::try_from(here).unwrap_or_default();
    bytes.get(here..).unwrap_or_default()
}
