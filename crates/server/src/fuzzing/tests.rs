//! Short runs of every fuzz target: arbitrary bytes, and mutated seeds.

use super::{json_request, replay_line, rls_codec, rls_request, rule_file, websocket_frames};
use hivemind_admin::request_of_json;
use hivemind_core::testing::cases;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use std::path::Path;

/// The seeds of a target in `fuzz/seeds`.
fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).unwrap()).collect()
}

/// One change to a file.
#[derive(Clone, Debug)]
enum Change {
    Insert(Index, Vec<u8>),
    Delete(Index, usize),
    Copy(Index, usize, Index),
    Flip(Index, u8),
    SwapLines(Index, Index),
    RepeatLine(Index, usize),
    DropLine(Index),
}

/// Inputs that break parsers: YAML and JSON punctuation, range limits, multi-byte characters, invalid UTF-8.
const TOKENS: &[&[u8]] = &[
    b"-",
    b": ",
    b"?",
    b"*",
    b"&a ",
    b"*a",
    b"!!",
    b"|\n",
    b">\n",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b"\"",
    b"'",
    b"#",
    b"---\n",
    b"...\n",
    b"%YAML 9\n",
    b"\n",
    b"\r\n",
    b"\t",
    b"    ",
    b"~",
    b"null",
    b"true",
    b"0",
    b"-1",
    b"1e999",
    b"4294967296",
    b"18446744073709551616",
    b".nan",
    "é".as_bytes(),
    "🐝".as_bytes(),
    "\u{feff}".as_bytes(),
    "\u{2028}".as_bytes(),
    b"\xff",
    b"\x00",
    b"\x80",
    b"unit",
    b"key",
    b"<<: ",
];

fn change() -> impl Strategy<Value = Change> {
    let any_index = any::<Index>;
    let token = || prop_oneof![4 => select(TOKENS).prop_map(<[u8]>::to_vec), 1 => vec(any::<u8>(), 1..6)];
    prop_oneof![
        4 => (any_index(), token()).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        3 => (any_index(), 1..9_usize).prop_map(|(at, count)| Change::Delete(at, count)),
        2 => (any_index(), 1..40_usize, any_index()).prop_map(|(from, count, to)| Change::Copy(from, count, to)),
        2 => (any_index(), any::<u8>()).prop_map(|(at, byte)| Change::Flip(at, byte)),
        1 => (any_index(), any_index()).prop_map(|(a, b)| Change::SwapLines(a, b)),
        1 => (any_index(), 1..60_usize).prop_map(|(at, times)| Change::RepeatLine(at, times)),
        1 => any_index().prop_map(Change::DropLine),
    ]
}

fn changed(seed: &[u8], changes: &[Change]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for change in changes {
        let place = |index: &Index| index.index(bytes.len() + 1);
        match change {
            Change::Insert(at, put) => {
                let at = place(at);
                bytes.splice(at..at, put.iter().copied());
            }
            Change::Delete(at, count) => {
                let at = place(at);
                bytes.drain(at..(at + count).min(bytes.len()));
            }
            Change::Copy(from, count, to) => {
                let (from, to) = (place(from), place(to));
                let copy = bytes[from..(from + count).min(bytes.len())].to_vec();
                bytes.splice(to..to, copy);
            }
            Change::Flip(at, byte) => {
                let at = place(at);
                if let Some(there) = bytes.get_mut(at) {
                    *there ^= byte;
                }
            }
            Change::SwapLines(..) | Change::RepeatLine(..) | Change::DropLine(_) => {
                change_lines(&mut bytes, change);
            }
        }
    }
    bytes
}

fn change_lines(bytes: &mut Vec<u8>, change: &Change) {
    let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    if lines.is_empty() {
        return;
    }
    let place = |index: &Index| index.index(lines.len());
    match change {
        Change::SwapLines(a, b) => {
            let (a, b) = (place(a), place(b));
            lines.swap(a, b);
        }
        Change::RepeatLine(at, times) => {
            let at = place(at);
            let line = lines[at];
            lines.splice(at..at, std::iter::repeat_n(line, *times));
        }
        Change::DropLine(at) => {
            let at = place(at);
            lines.remove(at);
        }
        _ => {}
    }
    *bytes = lines.concat();
}

/// A seed with up to five changes.
fn near(seeds: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (select(seeds), vec(change(), 0..6)).prop_map(|(seed, changes)| changed(&seed, &changes))
}

fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let tokens = vec(select(TOKENS), 0..60).prop_map(|tokens| tokens.concat());
    prop_oneof![vec(any::<u8>(), 0..300), tokens]
}

fn calls() -> Vec<Vec<u8>> {
    seeds("json_request").iter().map(|json| request_of_json(json).unwrap()).collect()
}

// Fails when statuses without a limit are omitted, spans exceed the text, a call without descriptors panics, or a
// time after 2554 does.
proptest! {
    #![proptest_config(cases(5_000))]

    #[test]
    fn any_rule_file_parses_or_reports_problems(bytes in any_bytes()) {
        rule_file(&bytes);
    }

    #[test]
    fn mutated_rule_file_parses_or_reports_problems(bytes in near(seeds("rule_file"))) {
        rule_file(&bytes);
    }

    #[test]
    fn any_rls_request_is_answered_or_rejected(bytes in any_bytes()) {
        let _ = rls_request(&bytes);
    }

    #[test]
    fn mutated_rls_request_decodes_as_prost(bytes in near(calls())) {
        let _ = rls_codec(&bytes);
    }

    #[test]
    fn mutated_rls_request_has_a_status_per_descriptor(bytes in near(calls())) {
        let _ = rls_request(&bytes);
    }

    #[test]
    fn any_json_request_is_answered_or_rejected(bytes in any_bytes()) {
        json_request(&bytes);
    }

    #[test]
    fn mutated_json_request_is_answered_or_rejected(bytes in near(seeds("json_request"))) {
        json_request(&bytes);
    }

    #[test]
    fn any_recording_is_decided_or_rejected(bytes in any_bytes()) {
        replay_line(&bytes);
    }

    #[test]
    fn mutated_recording_is_decided_or_rejected(bytes in near(seeds("replay_line"))) {
        replay_line(&bytes);
    }

    #[test]
    fn split_websocket_frames_pass_the_same_bytes(
        bytes in near(seeds("websocket_frames"))
    ) {
        websocket_frames(&bytes);
    }
}

#[test]
fn rls_request_seeds_are_the_json_seeds() {
    assert_eq!(seeds("rls_request"), calls());
}
