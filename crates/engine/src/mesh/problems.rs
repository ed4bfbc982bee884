//! Problems of the mesh, described for operators.

use hivemind_mesh::{NodeId, Standing};
use hivemind_mesh_net::Isolation;
use std::time::Duration;

/// Maximum number of names in a line.
const MOST_NAMES: usize = 5;

/// All problems of the mesh.
pub(super) fn problems(standing: &Standing, staleness: Duration) -> Vec<String> {
    let mut problems = Vec::new();
    if let Some(other) = standing.outdated_by {
        problems.push(format!(
            "another node uses this name, or used it with a clock that was ahead (its generation is {}), and peers follow that one; give each node its own name, then restart this node",
            other.0
        ));
    }
    if standing.is_in_doubt {
        problems
            .push("this node waits for peers to confirm the current view, and starts no windows".to_owned());
    }
    if !standing.other_rules.is_empty() {
        problems.push(format!("peers with different rules: {}", list(&standing.other_rules)));
    }
    let is_member = |id: &NodeId| standing.members.iter().any(|member| member.id == *id);
    let silent = standing.ages.iter().filter(|(id, age)| *age > staleness && is_member(id));
    let silent: Vec<NodeId> = silent.map(|(id, _)| id.clone()).collect();
    if !silent.is_empty() {
        problems.push(format!("silent members, whose allowance is reserved: {}", list(&silent)));
    }
    let off = standing.clocks.iter().filter(|clock| clock.is_quarantined);
    let off: Vec<NodeId> = off.map(|clock| clock.id.clone()).collect();
    if !off.is_empty() {
        problems.push(format!("peers with a wrong clock: {}", list(&off)));
    }
    problems
}

/// The problem that none of the configured peers was ever reached.
pub(super) fn alone(isolation: &Isolation) -> String {
    let Isolation { addresses, reason, .. } = isolation;
    format!(
        "no peer of `mesh.bootstrap_peers` and `mesh.dns` was ever reached, at {addresses} addresses \
         ({reason}): this node counts alone, and its peers may as well"
    )
}

fn list(names: &[NodeId]) -> String {
    let shown: Vec<&str> = names.iter().take(MOST_NAMES).map(NodeId::as_str).collect();
    let more = names.len().saturating_sub(MOST_NAMES);
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}
