//! Every order of events of three nodes within small bounds: two windows, two views, a crash.

use hivemind_mesh_sim::{MembershipChange, ModelCheck};

/// In every state, the admissions of a window and the allowance of all nodes together are at most its limit, also across
/// views.
///
/// Fails when a return is not debited, a grant is applied to another window, allowance is carried over into the next
/// window, grants are added up or not debited, a new generation has the share, the grant or the counter of the previous
/// one, a counter with a new owner starts empty, or windows start during an open vote.
fn holds(change: MembershipChange) {
    let long = std::env::var_os("HIVEMIND_LONG").is_some();
    let models = if long { ModelCheck::deep() } else { ModelCheck::quick() };
    for model in models.into_iter().filter(|model| model.change == change) {
        let searched = ModelCheck { max_states: 8_000_000, ..model }.search();
        assert_eq!(searched.broken, None, "{model:?}");
        assert!(searched.complete || long, "{model:?} was not searched to its end: {searched:?}");
        assert!(searched.states > 100, "{model:?} has hardly any states: {searched:?}");
    }
}

#[test]
fn no_event_order_exceeds_the_limit_on_three_nodes() {
    holds(MembershipChange::None);
}

#[test]
fn no_event_order_exceeds_the_limit_while_a_new_owner_joins() {
    holds(MembershipChange::Join);
}

#[test]
fn no_event_order_exceeds_the_limit_while_the_owner_leaves() {
    holds(MembershipChange::Leave);
}
