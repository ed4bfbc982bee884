//! Every order of events of three nodes within small bounds: two windows, two views, a crash.

use hivemind_mesh::sim::Model;

/// In every state of every model: what was admitted of a window, and what could still be spent of it by all nodes
/// together, is at most its limit. Across views too.
#[test]
fn no_order_of_events_makes_three_nodes_hold_more_than_the_limit() {
    let long = std::env::var_os("HIVEMIND_LONG").is_some();
    let models = if long { Model::deep() } else { Model::quick() };
    for model in models {
        let searched = Model { most_states: 20_000_000, ..model }.search();
        assert_eq!(searched.broken, None, "{model:?}");
        assert!(searched.complete || long, "{model:?} was not searched to its end: {searched:?}");
    }
}
