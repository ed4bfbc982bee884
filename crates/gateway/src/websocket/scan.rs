//! Frame gate without a connection, for tests and fuzzing.

use super::gate::{ClientGate, FrameGate, GateDecision, GateStop, NoCharge};

/// The outcome of parsing bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ScanResult {
    pub passed: Vec<u8>,
    pub stop: Option<GateStop>,
    pub messages: u64,
}

/// What the client gate lets pass of bytes in these pieces.
pub fn scan<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> ScanResult {
    let mut gate = ClientGate::new(Some(NoCharge));
    let (passed, stop) = run_gate(&mut gate, pieces);
    ScanResult { passed, stop, messages: gate.messages() }
}

/// What any gate lets pass until it stops.
pub(super) fn run_gate<'a>(
    gate: &mut impl FrameGate,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<u8>, Option<GateStop>) {
    let (mut passed, mut kept) = (Vec::new(), Vec::new());
    for piece in pieces.into_iter().filter(|piece| !piece.is_empty()) {
        let bytes = [&kept, piece].concat();
        let GateDecision { pass, keep, stop } = gate.inspect(&bytes);
        passed.extend_from_slice(bytes.get(..pass).unwrap_or_default());
        kept = bytes.get(bytes.len() - keep..).unwrap_or_default().to_vec();
        assert!(pass + keep <= bytes.len() && keep < 14, "{pass} and {keep} of {}", bytes.len());
        if stop.is_some() {
            return (passed, stop);
        }
    }
    (passed, None)
}
