//! One run of one node. A node that starts anew is another member of the same name:
//! what its last run held died with that run, and frames to it are not for this one.

use crate::owner::NodeId;

/// The number of a node's run, larger than those of all its runs before: the time of its start will do.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_mesh::Generation;
///
/// let run = |started: Timestamp| Generation(started.as_nanos());
/// assert!(run(Timestamp::from_millis(2)) > run(Timestamp::from_millis(1)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// One run of one node.
///
/// ```
/// use hivemind_mesh::{Member, NodeId};
///
/// let id = NodeId::parse("a")?;
/// assert_ne!(Member::new(id.clone(), 1), Member::new(id, 2)); // It was started anew.
/// # Ok::<(), hivemind_mesh::UnusableName>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The node's name.
    pub id: NodeId,
    /// Which of its runs.
    pub generation: Generation,
}

impl Member {
    /// The run `generation` of the node `id`.
    #[must_use]
    pub fn new(id: NodeId, generation: u64) -> Self {
        Self { id, generation: Generation(generation) }
    }
}
