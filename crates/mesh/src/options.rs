//! Options of a mesh node.

use crate::membership::MembershipOptions;
pub use hivemind_core::{Consistency, OnUnreachable};
use std::time::Duration;

/// Options of a mesh node.
///
/// ```
/// use hivemind_mesh::{Consistency, MeshOptions, OnUnreachable};
/// use std::time::Duration;
///
/// let strict = MeshOptions {
///     on_unreachable: OnUnreachable::Refuse,
///     ask_timeout: Duration::from_millis(30), // Its nodes are in two data centers.
///     ..MeshOptions::default()
/// };
/// assert_eq!(strict.consistency, Consistency::Exact);
/// ```
#[derive(Clone, Debug)]
pub struct MeshOptions {
    /// How limits are shared when the rule does not set it.
    pub consistency: Consistency,
    /// What to do while an owner cannot be reached, when the rule does not set it.
    pub on_unreachable: OnUnreachable,
    /// How often changes are sent.
    pub sync_interval: Duration,
    /// How long a decision waits for the owner.
    pub ask_timeout: Duration,
    /// The most shared keys; further keys are counted by this node alone.
    pub max_keys: usize,
    /// Whether an owner grants more than is needed at once. Without it the owner makes every decision.
    pub grant_ahead: bool,
    /// The number of requests per member from which a window is split at its start.
    pub split_from: u32,
    /// Whether an owner with nothing left recalls allowance from members.
    pub recall: bool,
    /// Whether the last owner of a bucket sends its level to the next owner. Without it a bucket that changes
    /// its owner begins empty.
    pub handoff: bool,
    /// How long before its start a window accepts requests from peers.
    pub early: Duration,
    /// How far the mesh clock is adjusted towards the other clocks per second, at most; zero disables it.
    pub slew: Duration,
    /// How many bytes per second are sent to all peers together; none is unlimited. Requests to owners never
    /// wait for it; updates of counters far from their limit are delayed.
    pub bandwidth_limit: Option<u64>,
    /// How views are agreed.
    pub membership: MembershipOptions,
}

impl Default for MeshOptions {
    fn default() -> Self {
        Self {
            consistency: Consistency::Exact,
            on_unreachable: OnUnreachable::Share,
            sync_interval: Duration::from_millis(50),
            ask_timeout: Duration::from_millis(15),
            max_keys: 100_000,
            grant_ahead: true,
            split_from: 10,
            recall: true,
            handoff: true,
            early: Duration::from_secs(1),
            slew: Duration::from_millis(50),
            bandwidth_limit: None,
            membership: MembershipOptions::default(),
        }
    }
}
