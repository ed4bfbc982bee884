//! Every order of events of three nodes within small bounds: two windows, two views, a crash.

use hivemind_mesh_sim::{Change, Model};

/// In every state: what was admitted of a window, and what all nodes together could still spend of it, is at most
/// its limit. Across views too.
///
/// Seen failing on: a return without its debit; a grant for another window applied to this one; rights carried over
/// into the next window; grants added up; a grant that is not debited; a new run with the old one's share, with a
/// grant to it, or with its counter; a counter that changes hands and begins anew; windows begun past an open vote.
fn holds(change: Change) {
    let long = std::env::var_os("HIVEMIND_LONG").is_some();
    let models = if long { Model::deep() } else { Model::quick() };
    for model in models.into_iter().filter(|model| model.change == change) {
        let searched = Model { most_states: 8_000_000, ..model }.search();
        assert_eq!(searched.broken, None, "{model:?}");
        assert!(searched.complete || long, "{model:?} was not searched to its end: {searched:?}");
        assert!(searched.states > 100, "{model:?} has hardly any states: {searched:?}");
    }
}

#[test]
fn no_order_of_events_makes_three_nodes_hold_more_than_the_limit() {
    holds(Change::None);
}

#[test]
fn no_order_of_events_makes_them_hold_more_while_one_joins_and_takes_the_counter_over() {
    holds(Change::Join);
}

#[test]
fn no_order_of_events_makes_them_hold_more_while_the_owner_leaves() {
    holds(Change::Leave);
}
