//! Test support: nodes that are members of one view without a vote, and random numbers from a seed.

mod frames;
mod random;

#[doc(hidden)]
pub use frames::FrameCodec;
pub use random::Random;

#[doc(hidden)]
pub use crate::node::probe::is_about_counters;

use crate::node::Node;
use crate::options::MeshOptions;
use crate::view::Member;
use crate::view::NodeId;
use crate::view::view_log::ViewLog;
use crate::view::{Round, View};
use hivemind_core::Timestamp;

/// The name of the node with this number.
#[doc(hidden)]
#[must_use]
pub fn named(index: usize) -> NodeId {
    NodeId::new(format!("n{index:03}"))
}

/// Makes nodes the members of one view.
#[doc(hidden)]
pub fn form_mesh(nodes: &mut [(&mut Node, Timestamp)]) {
    let members: Vec<Member> = nodes.iter().map(|(node, _)| node.member().clone()).collect();
    let Some(first) = members.first() else { return };
    let round = Round { number: 1, proposer: first.id.clone() };
    let view = View::new(None, Timestamp::EPOCH, round, members.clone(), []);
    let view_log = ViewLog::founded(view, Timestamp::EPOCH);
    for (node, now) in nodes {
        node.join_view(view_log.clone(), &members, *now);
    }
}

/// `count` nodes that are members of one view.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_mesh::{MeshOptions, testing::mesh_nodes};
///
/// let nodes = mesh_nodes(3, &MeshOptions::default(), Timestamp::from_millis(1_700_000_000_000));
/// assert!(nodes.iter().all(|node| node.is_ready()));
/// ```
#[must_use]
pub fn mesh_nodes(count: usize, options: &MeshOptions, now: Timestamp) -> Vec<Node> {
    let mut nodes: Vec<Node> =
        (0..count).map(|index| Node::new(named(index), 1, options.clone(), now)).collect();
    let mut pairs: Vec<_> = nodes.iter_mut().map(|node| (node, now)).collect();
    form_mesh(&mut pairs);
    nodes
}
