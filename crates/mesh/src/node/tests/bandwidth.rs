//! A limit of bytes per second.

use super::*;
use crate::counter::counter_window::Side;

/// The spending of a counter that its owner knows.
fn heard(mesh: &Mesh, key: Key) -> u64 {
    let spent = |side: &Side| if let Side::Ledger(ledger) = side { ledger.spent() } else { 0 };
    let known = mesh.nodes[0]
        .table
        .counters
        .look(&key, |counter| counter.windows.iter().map(|window| spent(&window.side)).sum());
    known.unwrap_or(0)
}

// Fails when all updates are sent at once, waiting ones in order of arrival, or waiting ones are forgotten.
#[test]
fn bandwidth_limit_sends_counters_near_limit_first() {
    let mut mesh = Mesh::new(2, &MeshOptions { bandwidth_limit: Some(2_000), ..strict() });
    let limit = Limit::fixed_window(1_000, Period::MINUTE);
    let far: Vec<Key> = (1..=300).map(|number| mesh.key(0, number)).collect();
    let near = mesh.key(0, 301);
    for key in &far {
        assert!(mesh.passes_now(1, &[charge(*key, &limit)]));
    }
    for _ in 0..480 {
        assert!(mesh.passes_now(1, &[charge(near, &limit)]));
    }
    mesh.pass(60);
    let sent = far.iter().filter(|key| heard(&mesh, **key) > 0).count();
    assert_eq!(heard(&mesh, near), 480);
    assert!((1..100).contains(&sent), "{sent} of those far from their limit were sent at once");

    // A request that waits for a reply does not wait for the budget.
    let small = Limit::fixed_window(5, Period::MINUTE);
    assert_eq!(mesh.passed(1, 10, &[charge(mesh.key(0, 302), &small)]), 5);

    mesh.pass(15_000);
    let unsent = far.iter().filter(|key| heard(&mesh, **key) == 0).count();
    assert_eq!(unsent, 0);
}
