//! Fuzzing of frames: arbitrary bytes of a peer cause no panic, no admission beyond a limit, and no more shared counters
//! than allowed.

use hivemind_core::store::{Charge, Context, Key, Parts};
use hivemind_core::{Limit, Period, Timestamp};
use hivemind_mesh::MeshOptions;
use hivemind_mesh::NodeDecision;
use hivemind_mesh::testing::mesh_nodes;

/// Passes these bytes to a node as frames of a peer, each after a byte with its length, and checks what it admits.
///
/// ```
/// use hivemind_mesh_sim::hostile_frames;
///
/// hostile_frames(&[3, 0xff, 0xff, 0xff, 200, 1]); // Three bytes, then one byte after a length of 200.
/// ```
///
/// # Panics
/// If it admits more than its limit, or shares more counters than `max_keys`.
pub fn hostile_frames(mut bytes: &[u8]) {
    let now = Timestamp::from_millis(1_700_000_000_000);
    let options = MeshOptions { max_keys: 8, ..MeshOptions::default() };
    let mut nodes = mesh_nodes(3, &options, now);
    let Some(from) = nodes.get(1).map(|node| node.member().id.clone()) else { return };
    let Some(node) = nodes.first_mut() else { return };
    let limit = Limit::fixed_window(30, Period::MINUTE);
    let mut admitted = 0;
    while let Some((length, rest)) = bytes.split_first() {
        let (frame, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        bytes = rest;
        node.on_frame(now, &from, frame);
        for _ in 0..12 {
            let parts = Parts { domain: "", entries: &[] };
            let key = Key::from_bits(1, 2);
            let charge = Charge::spend(key, parts, &limit);
            let decided = node.decide(&[charge], Context::at(now));
            admitted += u32::from(matches!(decided, NodeDecision::Now(verdicts) if verdicts.committed));
        }
        node.on_tick(now);
        drop(node.outputs());
    }
    assert!(admitted <= limit.requests(), "{admitted} of 30 were admitted");
    assert!(node.standing(now).keys <= 8);
}
