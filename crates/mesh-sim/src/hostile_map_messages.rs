//! Fuzzing of the replicated map: arbitrary messages of a peer cause no panic and no growth beyond its bounds, and local
//! entries are still accepted afterwards.

use hivemind_core::Timestamp;
use hivemind_mesh::NodeId;
use hivemind_mesh::replicated_map::{EntryError, LONGEST_TEXT, MOST_ENTRIES, MOST_OTHERS, MapHandle};
use std::time::Duration;

/// Passes these bytes to a map as messages of a peer, each after two bytes with its length.
///
/// ```
/// use hivemind_mesh_sim::hostile_map_messages;
///
/// hostile_map_messages(&[0, 2, 1, 0xff, 0xff]); // Two bytes, then half of a length.
/// ```
///
/// # Panics
/// If the map exceeds its bounds, if its digest is wrong, or if it rejects a local entry afterwards.
pub fn hostile_map_messages(mut bytes: &[u8]) {
    let handle = MapHandle::new(Some(NodeId::new("a")));
    handle.watch(|text| text.starts_with(b"block"), |_| {});
    let (peer, mut now) = (NodeId::new("b"), Timestamp::from_millis(1_700_000_000_000));
    while let Some(([high, low], rest)) = bytes.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let (message, rest) = rest.split_at(length.min(rest.len()));
        bytes = rest;
        let _ = handle.receive(&peer, message, now); // Invalid messages are dropped.
        now = now.saturating_add(Duration::from_millis(100));
        drop(handle.take_updates());
    }
    handle.read(|map| {
        assert!(map.all().count() <= MOST_ENTRIES + MOST_OTHERS);
        assert!(map.all().all(|(text, _)| text.len() <= LONGEST_TEXT));
        assert_eq!(map.digest(), map.recomputed_digest());
    });
    // A minute later a local entry is stored, unless the map is full.
    let (later, text) = (now.saturating_add(Duration::from_secs(61)), b"block ada");
    let until = later.saturating_add(Duration::from_secs(60));
    match handle.insert(text, until, later) {
        Ok(()) => assert!(handle.remove(text, later)),
        Err(why) => assert!(matches!(why, EntryError::Full { .. } | EntryError::Crowded { .. }), "{why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::hostile_map_messages;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn map_stays_bounded_for_arbitrary_messages(
            messages in prop::collection::vec((1_u8..5, prop::collection::vec(any::<u8>(), 0..200)), 0..20)
        ) {
            let mut bytes = Vec::new();
            for (kind, rest) in messages {
                bytes.extend(u16::try_from(rest.len() + 1).unwrap().to_be_bytes());
                bytes.push(kind);
                bytes.extend(rest);
            }
            hostile_map_messages(&bytes);
        }
    }
}
