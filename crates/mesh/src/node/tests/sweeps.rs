//! Expired counters are removed, a part at a time.

use super::*;

// Fails when all shards are swept at once, or a shard is never swept.
#[test]
fn sweep_removes_counters_gradually_within_a_second() {
    let limit = Limit::fixed_window(600, Period::SECOND);
    let mut mesh = Mesh::new(3, &strict());
    for number in 0..1_000 {
        assert!(mesh.passes(0, &[charge(mesh.key(0, number), &limit)]));
    }
    let kept = |mesh: &Mesh| mesh.nodes[0].table.counters.len();
    assert_eq!(kept(&mesh), 1_000);
    let (mut before, mut most) = (1_000, 0);
    // Two windows that are kept, and a second for all shards.
    for _ in 0..3_100 / 20 {
        mesh.tick(20);
        most = most.max(before - kept(&mesh));
        before = kept(&mesh);
    }
    assert_eq!(before, 0);
    assert!(most <= 100, "{most} at once");
}
