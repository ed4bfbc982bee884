//! Members: one generation of one node. A restarted node is another member with the same name: the allowance of
//! its previous generation is lost, and frames addressed to that generation are not for this one.

use crate::view::NodeId;

/// The number of one process lifetime of a node, larger than those of all earlier ones. The start time is
/// suitable.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_mesh::Generation;
///
/// let generation = |started: Timestamp| Generation(started.as_nanos());
/// assert!(generation(Timestamp::from_millis(2)) > generation(Timestamp::from_millis(1)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Generation(pub u64);

/// One generation of one node.
///
/// ```
/// use hivemind_mesh::{Member, NodeId};
///
/// let id = NodeId::parse("a")?;
/// assert_ne!(Member::new(id.clone(), 1), Member::new(id, 2)); // It restarted.
/// # Ok::<(), hivemind_mesh::UnusableName>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member {
    /// The node's name.
    pub id: NodeId,
    /// Its generation.
    pub generation: Generation,
}

impl Member {
    /// Generation `generation` of the node `id`.
    #[must_use]
    pub fn new(id: NodeId, generation: u64) -> Self {
        Self { id, generation: Generation(generation) }
    }
}
