//! What a peer says beside its roster, for fuzzing: whatever it is, a board neither panics nor grows beyond its bounds,
//! and what is said here afterwards counts.

use hivemind_core::Timestamp;
use hivemind_mesh::NodeId;
use hivemind_mesh::bulletin::{Board, LONGEST_TEXT, MOST_NOTES, MOST_OTHERS, NotPosted};
use std::time::Duration;

/// Gives a board these bytes as words of a peer, each with its length before it, in two bytes.
///
/// ```
/// use hivemind_mesh_sim::hostile_notes;
///
/// hostile_notes(&[0, 2, 1, 0xff, 0xff]); // Two bytes, then half of a length.
/// ```
///
/// # Panics
/// If there is more on the board than may be, its digest is not that of what is there, or nothing can be said any more.
pub fn hostile_notes(mut bytes: &[u8]) {
    let board = Board::new(Some(NodeId::new("a")));
    board.watch(|text| text.starts_with(b"block"), |_| {});
    let (peer, mut now) = (NodeId::new("b"), Timestamp::from_millis(1_700_000_000_000));
    while let Some(([high, low], rest)) = bytes.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let (words, rest) = rest.split_at(length.min(rest.len()));
        bytes = rest;
        let _ = board.hear(&peer, words, now); // What cannot be read is dropped.
        now = now.saturating_add(Duration::from_millis(100));
        drop(board.take_news());
    }
    board.show(|bulletin| {
        assert!(bulletin.all().count() <= MOST_NOTES + MOST_OTHERS);
        assert!(bulletin.all().all(|(text, _)| text.len() <= LONGEST_TEXT));
        assert_eq!(bulletin.digest(), bulletin.digest_anew());
    });
    // A minute later whatever is said counts, unless there are as many blocks as may be.
    let (later, text) = (now.saturating_add(Duration::from_secs(61)), b"block ada");
    let until = later.saturating_add(Duration::from_secs(60));
    match board.post(text, until, later) {
        Ok(()) => assert!(board.take_down(text, later)),
        Err(why) => assert!(matches!(why, NotPosted::Full { .. } | NotPosted::Crowded { .. }), "{why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::hostile_notes;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_board_is_bounded_whatever_a_peer_says(
            words in prop::collection::vec((1_u8..5, prop::collection::vec(any::<u8>(), 0..200)), 0..20)
        ) {
            let mut bytes = Vec::new();
            for (kind, rest) in words {
                bytes.extend(u16::try_from(rest.len() + 1).unwrap().to_be_bytes());
                bytes.push(kind);
                bytes.extend(rest);
            }
            hostile_notes(&bytes);
        }
    }
}
