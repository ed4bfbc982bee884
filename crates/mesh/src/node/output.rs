//! Outputs of a node: decisions, and frames to send.

use super::Inspection;
use crate::view::NodeId;
use hivemind_core::store::Verdicts;

/// A decision that waits for the owner of a counter.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_core::store::Verdicts;
/// use hivemind_mesh::{Node, Output, Ticket};
///
/// /// The result of a decision that a caller waits for.
/// fn decided(node: &mut Node, waited_for: Ticket) -> Option<Verdicts> {
///     node.outputs().find_map(|output| match output {
///         Output::Decided(ticket, verdicts) if ticket == waited_for => Some(verdicts),
///         _ => None,
///     })
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub(crate) u64);

/// The result of a request or an inspection.
///
/// ```
/// use hivemind_core::store::{Charge, Context, Key, Parts};
/// use hivemind_core::{Limit, Period, Timestamp};
/// use hivemind_mesh::{NodeDecision, MeshOptions, testing::mesh_nodes};
///
/// let now = Timestamp::from_millis(1_700_000_000_000);
/// let mut nodes = mesh_nodes(2, &MeshOptions::default(), now);
/// let limit = Limit::fixed_window(2, Period::MINUTE);
/// let charge = Charge::spend(Key::from_bits(7, 11), Parts { domain: "", entries: &[] }, &limit);
/// let decided: Vec<_> = nodes.iter_mut().map(|node| node.decide(&[charge], Context::at(now))).collect();
/// // One of the two owns the counter, and the other has to ask it.
/// assert_eq!(decided.iter().filter(|decided| matches!(decided, NodeDecision::Now(_))).count(), 1);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum NodeDecision<T = Verdicts> {
    /// It is decided.
    Now(T),
    /// It follows among the outputs with this ticket, at the latest when its time is over.
    Later(Ticket),
}

/// The priority of a frame.
///
/// ```
/// use hivemind_mesh::Lane;
///
/// /// Frames that a request waits for go first.
/// fn priority(lane: Lane) -> u8 {
///     match lane {
///         Lane::Ask => 1,
///         Lane::Sync => 0,
///     }
/// }
/// assert!(priority(Lane::Ask) > priority(Lane::Sync));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lane {
    /// A request waits for it.
    Ask,
    /// It can wait.
    Sync,
}

/// An action that a node requests from its driver.
///
/// ```
/// use hivemind_core::store::{Charge, Context, Key, Parts};
/// use hivemind_core::{Limit, Period, Timestamp};
/// use hivemind_mesh::{MeshOptions, Output, testing::mesh_nodes};
///
/// let now = Timestamp::from_millis(1_700_000_000_000);
/// let mut nodes = mesh_nodes(2, &MeshOptions::default(), now);
/// let limit = Limit::fixed_window(2, Period::MINUTE);
/// let charge = Charge::spend(Key::from_bits(7, 11), Parts { domain: "", entries: &[] }, &limit);
/// nodes.iter_mut().for_each(|node| drop(node.decide(&[charge], Context::at(now))));
/// let (mut carried, mut decided) = (true, 0);
/// while std::mem::take(&mut carried) {
///     for from in 0..2 {
///         let (me, outputs) = (nodes[from].member().id.clone(), nodes[from].outputs().collect::<Vec<_>>());
///         for output in outputs {
///             match output {
///                 Output::Send { frame, .. } => nodes[1 - from].on_frame(now, &me, &frame),
///                 Output::Decided(_, verdicts) => decided += usize::from(verdicts.committed),
///                 _ => {} // Results for operators.
///             }
///             carried = true;
///         }
///     }
/// }
/// assert_eq!(decided, 1); // The one that asked its peer has its answer.
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// A frame for a peer.
    Send {
        /// The peer.
        to: NodeId,
        /// Its priority.
        lane: Lane,
        /// The frame.
        frame: Vec<u8>,
    },
    /// A decision that was waited for.
    Decided(Ticket, Verdicts),
    /// An operator's inspection, as the owner has it.
    Looked(Ticket, Inspection),
    /// A counter was reset by its owner.
    Reset(Ticket),
    /// The owner has not replied to an operator in time, so the result is unknown.
    GivenUp(Ticket),
}
