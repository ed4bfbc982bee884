//! What a node of the mesh can be told.

use crate::council::CouncilOptions;
pub use hivemind_core::{Consistency, OnUnreachable};
use std::time::Duration;

/// What a node of the mesh can be told.
///
/// ```
/// use hivemind_mesh::{Consistency, MeshOptions, OnUnreachable};
/// use std::time::Duration;
///
/// let strict = MeshOptions {
///     on_unreachable: OnUnreachable::Refuse,
///     ask_timeout: Duration::from_millis(30), // Its nodes are in two data centres.
///     ..MeshOptions::default()
/// };
/// assert_eq!(strict.consistency, Consistency::Exact);
/// ```
#[derive(Clone, Debug)]
pub struct MeshOptions {
    /// How limits are shared whose rule does not say it.
    pub consistency: Consistency,
    /// What to do while an owner cannot be reached, where the rule does not say it.
    pub on_unreachable: OnUnreachable,
    /// How often changes are told.
    pub sync_interval: Duration,
    /// How long a decision waits for the owner.
    pub ask_timeout: Duration,
    /// The most keys that are shared; those past it are counted by this node alone.
    pub max_keys: usize,
    /// Whether an owner lends more than is needed at once. Without it every decision is the owner's.
    pub lend_ahead: bool,
    /// From how many requests for each member on a window is split at its start.
    pub split_from: u32,
    /// Whether an owner that has nothing left recalls what members hold.
    pub recall: bool,
    /// Whether the owner of a bucket that goes to another tells it what it held. Without it a bucket that changes hands
    /// begins empty.
    pub hand_over: bool,
    /// How far ahead of its start a window is open to asks.
    pub early: Duration,
    /// By how much at most the mesh clock is moved towards the others' in a second; zero leaves it alone.
    pub slew: Duration,
    /// How many bytes a second may go to all peers together; none is no limit. Asks never wait for it; counters far
    /// from their limit are told later.
    pub bandwidth_limit: Option<u64>,
    /// How views come about.
    pub council: CouncilOptions,
}

impl Default for MeshOptions {
    fn default() -> Self {
        Self {
            consistency: Consistency::Exact,
            on_unreachable: OnUnreachable::Share,
            sync_interval: Duration::from_millis(50),
            ask_timeout: Duration::from_millis(15),
            max_keys: 100_000,
            lend_ahead: true,
            split_from: 10,
            recall: true,
            hand_over: true,
            early: Duration::from_secs(1),
            slew: Duration::from_millis(50),
            bandwidth_limit: None,
            council: CouncilOptions::default(),
        }
    }
}
