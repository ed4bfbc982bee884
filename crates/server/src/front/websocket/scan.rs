//! Frame gate without a connection, for tests and fuzzing.

use super::gate::{ClientGate, Gate, Look, Nothing, Stop};

/// The outcome of parsing bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Scanned {
    pub(crate) passed: Vec<u8>,
    pub(crate) stop: Option<Stop>,
    pub(crate) messages: u64,
}

/// What the client gate lets pass of bytes in these pieces.
pub(crate) fn scan<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Scanned {
    let mut gate = ClientGate::new(Some(Nothing));
    let (passed, stop) = through(&mut gate, pieces);
    Scanned { passed, stop, messages: gate.messages() }
}

/// What any gate lets pass until it stops.
pub(super) fn through<'a>(
    gate: &mut impl Gate,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<u8>, Option<Stop>) {
    let (mut passed, mut kept) = (Vec::new(), Vec::new());
    for piece in pieces.into_iter().filter(|piece| !piece.is_empty()) {
        let bytes = [&kept, piece].concat();
        let Look { pass, keep, stop } = gate.look(&bytes);
        passed.extend_from_slice(bytes.get(..pass).unwrap_or_default());
        kept = bytes.get(bytes.len() - keep..).unwrap_or_default().to_vec();
        assert!(pass + keep <= bytes.len() && keep < 14, "{pass} and {keep} of {}", bytes.len());
        if stop.is_some() {
            return (passed, stop);
        }
    }
    (passed, None)
}
