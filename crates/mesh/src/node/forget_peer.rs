//! Forgetting peers by an operator: needed where no discovery reports removals.

use super::Node;
use crate::view::NodeId;
use hivemind_core::Timestamp;
use std::fmt;
use std::time::Duration;

/// The result of forgetting a peer.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_mesh::{ForgetOutcome, MeshOptions, testing::mesh_nodes};
///
/// let now = Timestamp::from_millis(1_700_000_000_000);
/// let mut nodes = mesh_nodes(3, &MeshOptions::default(), now);
/// let gone = nodes[2].member().id.clone();
/// let minute_later = Timestamp::from_millis(1_700_000_060_000);
/// assert_eq!(nodes[0].forget_peer(&gone, minute_later), Ok(ForgetOutcome::Member));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForgetOutcome {
    /// A member: the next view excludes it.
    Member,
    /// No longer a member: there is nothing to do.
    NoMember,
}

/// Why a peer is not forgotten.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_mesh::{MeshOptions, NodeId, ForgetError, testing::mesh_nodes};
///
/// let now = Timestamp::from_millis(1_700_000_000_000);
/// let mut nodes = mesh_nodes(3, &MeshOptions::default(), now);
/// let error = nodes[0].forget_peer(&NodeId::parse("unknown")?, now).unwrap_err();
/// assert_eq!(error, ForgetError::Unknown);
/// assert_eq!(error.to_string(), "no peer has that name; `/api/v1/peers` lists the names");
/// # Ok::<(), hivemind_mesh::UnusableName>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForgetError {
    /// It is this node.
    Myself,
    /// It was heard this long ago.
    Heard(Duration),
    /// No peer has that name.
    Unknown,
}

impl fmt::Display for ForgetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Myself => f.write_str("it is this node itself; stop it, and it leaves the mesh"),
            Self::Heard(silence) => {
                let millis = silence.as_millis();
                write!(
                    f,
                    "the peer was heard {millis} ms ago; stop it, and retry once it has been silent for a while"
                )
            }
            Self::Unknown => f.write_str("no peer has that name; `/api/v1/peers` lists the names"),
        }
    }
}

impl std::error::Error for ForgetError {}

impl Node {
    /// An operator states that a peer does not come back. It counts as dead once it has been silent for the
    /// configured time, as if discovery had withdrawn its name: the next view excludes it. All members receive
    /// that view, so one call at one member is enough. A peer that sends frames again is welcome, and no longer
    /// forgotten.
    ///
    /// ```
    /// # use hivemind_core::Timestamp;
    /// # use hivemind_mesh::{MeshOptions, ForgetError, testing::mesh_nodes};
    /// # let now = Timestamp::from_millis(1_700_000_000_000);
    /// let mut nodes = mesh_nodes(3, &MeshOptions::default(), now);
    /// let myself = nodes[0].member().id.clone();
    /// assert_eq!(nodes[0].forget_peer(&myself, now), Err(ForgetError::Myself));
    /// ```
    ///
    /// # Errors
    /// If it is this node, if a frame of it arrived recently, or if no peer has that name.
    pub fn forget_peer(&mut self, peer: &NodeId, now: Timestamp) -> Result<ForgetOutcome, ForgetError> {
        let now = self.mesh_time(now);
        if *peer == self.membership.me.id {
            return Err(ForgetError::Myself);
        }
        let heard = self.peers.get(peer).map(|peer| now.since(peer.heard));
        // A peer shown as dead can be forgotten, also where dead peers are tolerated for longer.
        let recent = self.options.membership.staleness.min(self.options.membership.dead_after);
        if let Some(silence) = heard.filter(|silence| *silence <= recent) {
            return Err(ForgetError::Heard(silence));
        }
        let is_member =
            self.view().is_some_and(|view| view.members().iter().any(|member| member.id == *peer));
        if is_member {
            self.peers.give_up(peer.clone());
            return Ok(ForgetOutcome::Member);
        }
        if heard.is_some() { Ok(ForgetOutcome::NoMember) } else { Err(ForgetError::Unknown) }
    }
}

#[cfg(test)]
mod tests {
    use super::{ForgetError, ForgetOutcome};
    use crate::node::{MeshOptions, Node, Output};
    use crate::view::NodeId;
    use hivemind_core::Timestamp;

    fn after(millis: u64) -> Timestamp {
        Timestamp::from_millis(1_700_000_000_000 + millis)
    }

    /// Lets time pass for running nodes; frames arrive at once.
    fn run(nodes: &mut [Node], from: u64, to: u64) {
        for millis in (from..to).step_by(10) {
            let now = after(millis);
            for node in &mut *nodes {
                node.on_tick(now);
            }
            loop {
                let mut mail = Vec::new();
                for node in nodes.iter_mut() {
                    let me = node.member().id.clone();
                    mail.extend(node.outputs().filter_map(|output| match output {
                        Output::Send { to, frame, .. } => Some((me.clone(), to, frame)),
                        _ => None,
                    }));
                }
                if mail.is_empty() {
                    break;
                }
                for (from, to, frame) in mail {
                    let to = nodes.iter_mut().find(|node| node.member().id == to);
                    if let Some(node) = to {
                        node.on_frame(now, &from, &frame);
                    }
                }
            }
        }
    }

    fn members(node: &Node) -> Vec<&str> {
        node.view().unwrap().members().iter().map(|member| member.id.as_str()).collect()
    }

    #[test]
    fn forgotten_peer_leaves_all_views_until_it_returns() {
        let names = ["a", "b", "c"];
        let new = |name: &str, generation| {
            let mut node = Node::new(NodeId::new(name), generation, MeshOptions::default(), after(0));
            names.iter().filter(|other| **other != name).for_each(|other| node.meet(NodeId::new(*other)));
            node
        };
        let mut nodes: Vec<Node> = names.map(|name| new(name, 1)).into();
        nodes[0].found(after(0));
        run(&mut nodes, 0, 8_000);
        assert_eq!(members(&nodes[1]), names);
        let gone = NodeId::new("c");
        assert!(matches!(nodes[0].forget_peer(&gone, after(8_000)), Err(ForgetError::Heard(_))));
        assert_eq!(nodes[0].forget_peer(&NodeId::new("a"), after(8_000)), Err(ForgetError::Myself));
        assert_eq!(nodes[0].forget_peer(&NodeId::new("d"), after(8_000)), Err(ForgetError::Unknown));
        let dead = nodes.pop().unwrap();
        run(&mut nodes, 8_000, 20_000);
        assert_eq!(members(&nodes[1]), names, "silence alone does not remove a member");
        assert_eq!(nodes[0].forget_peer(&gone, after(20_000)), Ok(ForgetOutcome::Member));
        run(&mut nodes, 20_000, 30_000);
        assert_eq!([members(&nodes[0]), members(&nodes[1])], [["a", "b"]; 2]);
        assert_eq!(
            nodes[0].forget_peer(&gone, after(30_000)),
            Ok(ForgetOutcome::NoMember),
            "once more does nothing"
        );
        // It comes back, and falls silent once more: this generation is not forgotten.
        drop(dead);
        nodes.push(new("c", 2));
        run(&mut nodes, 30_000, 45_000);
        assert_eq!(members(&nodes[0]), names);
        nodes.pop();
        run(&mut nodes, 45_000, 60_000);
        assert_eq!(members(&nodes[0]), names);
        assert!(nodes[0].view().unwrap().members().iter().all(|it| it.generation.0 == 1 || it.id == gone));
        assert_eq!(nodes[0].forget_peer(&gone, after(60_000)), Ok(ForgetOutcome::Member));
    }
}
