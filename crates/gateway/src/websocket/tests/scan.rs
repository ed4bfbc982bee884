//! Parsing of client frames: independent of how bytes are split, and equal to tungstenite.

use super::super::frame::{FrameHeader, Violation};
use super::super::gate::{GateStop, ServerGate};
use super::super::scan::{ScanResult, run_gate, scan};
use super::support::{frame, server_frame};
use hivemind_core::testing::cases;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use std::io::Cursor;
use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader as ReferenceHeader;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, WebSocket};

fn scan_pieces(pieces: &[&[u8]]) -> (Vec<u8>, Option<GateStop>, u64) {
    let ScanResult { passed, stop, messages } = scan(pieces.iter().copied());
    (passed, stop, messages)
}

// Fails when an incomplete header passes, a fragment is charged, FIN is ignored for the next frame, or a 16-bit
// length is read as 8 bits.
#[test]
fn each_message_counts_once_in_any_framing() {
    let text = |first, length| frame(first, &vec![b'a'; length]);
    for (messages, frames) in [
        (1, vec![text(0x81, 0)]),
        (1, vec![text(0x82, 125)]),
        (1, vec![text(0x81, 126)]),
        (1, vec![text(0x81, 65_535)]),
        (1, vec![text(0x81, 65_536)]),
        (1, vec![text(0x01, 3), text(0x00, 3), text(0x80, 3)]),
        (1, vec![text(0x01, 3), text(0x89, 5), text(0x8A, 0), text(0x80, 3)]),
        (2, vec![text(0x01, 3), text(0x80, 3), text(0x82, 1)]),
        (0, vec![text(0x89, 125), text(0x8A, 3)]),
        // Compressed: the first reserved bit, on the first fragment only.
        (2, vec![text(0xC1, 9), text(0x41, 9), text(0x80, 9)]),
        (1, vec![text(0x81, 1), text(0x88, 2)]),
    ] {
        let bytes = frames.concat();
        assert_eq!(scan_pieces(&[&bytes]), (bytes.clone(), None, messages), "{frames:02x?}");
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(scan_pieces(&single), (bytes.clone(), None, messages), "byte by byte: {frames:02x?}");
    }
}

// Fails when one of the conditions is missing.
#[test]
fn invalid_client_frames_do_not_pass() {
    let unmasked = server_frame(0x81, b"hi");
    let long_control = frame(0x89, &[0; 126]);
    let highest_bit = [&[0x82, 0xFF, 0x80][..], &[0; 11]].concat();
    let wasteful_16 = [0x82, 0xFE, 0, 125, 0, 0, 0, 0].to_vec();
    let wasteful_64 = [&[0x82, 0xFF, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF][..], &[0; 4]].concat();
    let mut cases = vec![
        (unmasked, Violation::Unmasked),
        (long_control, Violation::LongControl),
        (highest_bit, Violation::Length),
        (wasteful_16, Violation::Length),
        (wasteful_64, Violation::Length),
        (frame(0x09, b""), Violation::FragmentedControl),
        (frame(0x80, b""), Violation::NothingToContinue),
        (frame(0x00, b""), Violation::NothingToContinue),
        ([frame(0x01, b"a"), frame(0x81, b"b")].concat(), Violation::Interleaved),
        ([frame(0x02, b"a"), frame(0x89, b""), frame(0x02, b"b")].concat(), Violation::Interleaved),
    ];
    for opcode in (0x3..=0x7).chain(0xB..=0xF) {
        cases.push((frame(0x80 | opcode, b""), Violation::Opcode));
    }
    for (bytes, violation) in cases {
        let before = frame(0x81, b"good");
        let bad_length = if violation == Violation::Interleaved { 7 } else { bytes.len() };
        let good = [&before[..], &bytes[..bytes.len() - bad_length]].concat();
        let all = [before.clone(), bytes].concat();
        let (passed, stop, _) = scan_pieces(&[&all]);
        assert_eq!((&passed, stop), (&good, Some(GateStop::Malformed(violation))), "{all:02x?}");
        let (passed, stop, _) = scan_pieces(&all.chunks(1).collect::<Vec<_>>());
        assert_eq!(
            (&passed, stop),
            (&good, Some(GateStop::Malformed(violation))),
            "byte by byte: {all:02x?}"
        );
    }
}

#[test]
fn nothing_passes_after_the_clients_close() {
    let close = [frame(0x81, b"a"), frame(0x88, &[3, 232])].concat();
    let all = [close.clone(), frame(0x81, b"too late"), vec![0xFF; 40]].concat();
    assert_eq!(scan_pieces(&[&all]), (close.clone(), None, 1));
    assert_eq!(scan_pieces(&all.chunks(3).collect::<Vec<_>>()), (close, None, 1));
}

#[test]
fn unparsable_upstream_bytes_pass_unchanged() {
    let bytes = [server_frame(0x81, b"hello"), vec![0x82, 0xFF, 0xFF], vec![0xEE; 90]].concat();
    for size in [1, 7, 200] {
        let (passed, stop) = run_gate(&mut ServerGate::new(), bytes.chunks(size));
        assert_eq!((passed, stop), (bytes.clone(), None), "in pieces of {size}");
    }
}

/// Valid client frames.
fn conversation() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let length = || prop_oneof![0..4_usize, 120..130_usize, Just(65_535_usize), Just(65_536_usize)];
    let control = (prop_oneof![Just(0x89_u8), Just(0x8A)], 0..126_usize);
    let message = (1..3_u8, vec((length(), proptest::option::of(control)), 1..4));
    vec(message, 1..6)
        .prop_map(|messages| messages.iter().flat_map(|(kind, parts)| fragments(*kind, parts)).collect())
}

fn fragments(kind: u8, parts: &[(usize, Option<(u8, usize)>)]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for (index, (length, control)) in parts.iter().enumerate() {
        let opcode = if index == 0 { kind } else { 0 };
        let fin = if index + 1 == parts.len() { 0x80 } else { 0 };
        frames.push(frame(fin | opcode, &vec![b'x'; *length]));
        frames.extend(control.map(|(first, length)| frame(first, &vec![b'y'; length])));
    }
    frames
}

/// The number of messages that a tungstenite server reads from these bytes.
fn messages_by_tungstenite(bytes: &[u8]) -> u64 {
    let config = WebSocketConfig::default().accept_unmasked_frames(false);
    // Its pongs are appended after the input, where they are not read.
    let stream = ReadOnly(Cursor::new(bytes.to_vec()));
    let mut socket = WebSocket::from_raw_socket(stream, Role::Server, Some(config));
    let mut messages = 0;
    while let Ok(message) = socket.read() {
        messages += u64::from(matches!(message, Message::Text(_) | Message::Binary(_)));
    }
    messages
}

struct ReadOnly(Cursor<Vec<u8>>);

impl std::io::Read for ReadOnly {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer)
    }
}

impl std::io::Write for ReadOnly {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The bytes, split at these places.
fn split<'a>(bytes: &'a [u8], cuts: &[Index]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
    cuts.extend([0, bytes.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

proptest! {
    #![proptest_config(cases(300))]

    // Fails when a held header is forgotten, or when a read's payload is not subtracted from the frame.
    #[test]
    fn any_split_counts_like_tungstenite(frames in conversation(), cuts in vec(any::<Index>(), 0..40)) {
        let bytes = frames.concat();
        let (passed, stop, messages) = scan_pieces(&split(&bytes, &cuts));
        prop_assert_eq!(stop, None);
        prop_assert!(passed == bytes, "not what was sent");
        prop_assert_eq!(messages, messages_by_tungstenite(&bytes));
    }

    // Fails when a held header is forgotten, or when the rest of a read passes with the bytes before a violation.
    #[test]
    fn any_split_of_any_bytes_passes_the_same(
        bytes in vec(prop_oneof![any::<u8>(), prop::sample::select(vec![0x81, 0x01, 0x80, 0x88, 0xFE, 0xFF, 0])], 1..200),
        cuts in vec(any::<Index>(), 0..20),
    ) {
        prop_assert_eq!(scan_pieces(&split(&bytes, &cuts)), scan_pieces(&[&bytes]));
    }

    #[test]
    fn frame_header_parses_like_tungstenite(bytes in vec(any::<u8>(), 0..15)) {
        let mut cursor = Cursor::new(&bytes);
        let theirs = ReferenceHeader::parse(&mut cursor);
        match (FrameHeader::read(&bytes), theirs) {
            (Ok(Some(ours)), Ok(Some((theirs, length)))) => {
                prop_assert_eq!((ours.payload, ours.is_final), (length, theirs.is_final));
                prop_assert_eq!((ours.opcode, ours.is_masked), (u8::from(theirs.opcode), theirs.mask.is_some()));
                prop_assert_eq!(ours.length, usize::try_from(cursor.position()).unwrap());
            }
            // It waits for a complete header before it decides; tungstenite does not accept reserved opcodes.
            (Ok(None), Ok(None) | Err(_)) => {}
            (Ok(Some(header)), Err(_)) => prop_assert!(matches!(header.opcode, 3..=7 | 11..=15)),
            // tungstenite accepts these, RFC 6455 does not.
            (Err(violation), _) => prop_assert!(matches!(violation, Violation::Length | Violation::LongControl)),
            (ours, theirs) => prop_assert!(false, "{:?} and {:?}", ours, theirs),
        }
    }
}
