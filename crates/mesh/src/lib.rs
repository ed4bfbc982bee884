//! Limits shared by peers without a central store: a state machine without I/O. Requests, frames and ticks enter a
//! [`Node`] together with the time; decisions and frames come out. [`MeshStore`] wraps a node behind core's store
//! port. Terms: `docs/GLOSSARY.md`.
//!
//! A node decides locally while it holds allowance for a key, and asks the key's owner otherwise. The allowance
//! of all nodes together never exceeds the limit: an owner debits its ledger before it sends a grant. Members
//! are agreed before a window begins (docs/decisions/012 and 013).
//!
//! ```
//! use hivemind_core::store::{Charge, Context, Key, Parts};
//! use hivemind_core::{Limit, Period, Timestamp};
//! use hivemind_mesh::{NodeDecision, MeshOptions, Node, NodeId};
//!
//! let now = Timestamp::from_millis(1_700_000_000_000);
//! let mut node = Node::new(NodeId::parse("a")?, 1, MeshOptions::default(), now);
//! node.found(now); // It has no peers.
//! let limit = Limit::fixed_window(2, Period::MINUTE);
//! let charge = Charge::spend(Key::from_bits(7, 11), Parts { domain: "", entries: &[] }, &limit);
//! let mut passes = || {
//!     let decided = node.decide(&[charge], Context::at(now));
//!     matches!(decided, NodeDecision::Now(verdicts) if verdicts.committed)
//! };
//! assert_eq!([passes(), passes(), passes()], [true, true, false]);
//! # Ok::<(), hivemind_mesh::UnusableName>(())
//! ```

mod clock;
mod counter;
#[doc(hidden)]
pub mod frame;
#[cfg(all(test, loom))]
mod interleavings;
mod membership;
mod node;
mod options;
#[doc(hidden)]
pub mod replicated_map;
mod store;
mod sync;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[doc(hidden)]
pub mod view;
#[doc(hidden)]
pub mod window;

pub use membership::MembershipOptions;
pub use node::{
    ForgetError, ForgetOutcome, Holding, Inspection, Lane, Node, NodeDecision, Output, PeerClock, Reset,
    Standing, Ticket,
};
pub use options::{Consistency, MeshOptions, OnUnreachable};
pub use replicated_map::{EntryError, LostEntries, MapEntry, MapHandle, ReplicatedMap};
pub use store::{Carrier, MeshStore, SentUpdates};
pub use view::{Generation, Member, NodeId, UnusableName, View, ViewId};
