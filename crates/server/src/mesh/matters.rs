//! What is the matter with the mesh, in words for operators.

use hivemind_mesh::{NodeId, Standing};
use hivemind_mesh_net::Unmet;
use std::time::Duration;

/// The most names in a line.
const MOST_NAMES: usize = 5;

/// Everything about the mesh that an operator should know.
pub(super) fn matters(standing: &Standing, staleness: Duration) -> Vec<String> {
    let mut matters = Vec::new();
    if let Some(other) = standing.outdated_by {
        matters.push(format!(
            "another node of this name runs, or ran by a clock that was ahead (its run is {}), and peers listen to that one: give each node a name of its own, and restart this one",
            other.0
        ));
    }
    if standing.is_in_doubt {
        matters.push("this node waits for peers to say which view counts: it begins no window".to_owned());
    }
    if !standing.other_rules.is_empty() {
        matters.push(format!("peers that go by other rules: {}", list(&standing.other_rules)));
    }
    let is_member = |id: &NodeId| standing.members.iter().any(|member| member.id == *id);
    let silent = standing.ages.iter().filter(|(id, age)| *age > staleness && is_member(id));
    let silent: Vec<NodeId> = silent.map(|(id, _)| id.clone()).collect();
    if !silent.is_empty() {
        matters.push(format!("members that are silent, whose share is held for them: {}", list(&silent)));
    }
    let off = standing.clocks.iter().filter(|clock| clock.is_quarantined);
    let off: Vec<NodeId> = off.map(|clock| clock.id.clone()).collect();
    if !off.is_empty() {
        matters.push(format!("peers whose clock is off: {}", list(&off)));
    }
    matters
}

/// That peers are configured and none was ever met.
pub(super) fn alone(unmet: &Unmet) -> String {
    let Unmet { addresses, reason, .. } = unmet;
    format!(
        "none of the peers that `mesh.bootstrap_peers` and `mesh.dns` name was ever met, at {addresses} addresses \
         ({reason}): this node counts alone, and so may each of them"
    )
}

fn list(names: &[NodeId]) -> String {
    let shown: Vec<&str> = names.iter().take(MOST_NAMES).map(NodeId::as_str).collect();
    let more = names.len().saturating_sub(MOST_NAMES);
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}
