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
//! use hivemind_mesh::{Decided, MeshOptions, Node, NodeId};
//!
//! let now = Timestamp::from_millis(1_700_000_000_000);
//! let mut node = Node::new(NodeId::parse("a")?, 1, MeshOptions::default(), now);
//! node.found(now); // It has no peers.
//! let limit = Limit::fixed_window(2, Period::MINUTE);
//! let charge = Charge::spend(Key::from_bits(7, 11), Parts { domain: "", entries: &[] }, &limit);
//! let mut passes = || {
//!     let decided = node.decide(&[charge], Context::at(now));
//!     matches!(decided, Decided::Now(verdicts) if verdicts.committed)
//! };
//! assert_eq!([passes(), passes(), passes()], [true, true, false]);
//! # Ok::<(), hivemind_mesh::UnusableName>(())
//! ```

mod annex;
mod batch;
mod book;
mod books;
#[doc(hidden)]
pub mod bulletin;
#[doc(hidden)]
pub mod chain;
mod clock;
#[doc(hidden)]
pub mod codec;
mod council;
#[doc(hidden)]
pub mod dictionary;
#[doc(hidden)]
pub mod frame;
mod guard;
mod handed;
#[cfg(all(test, loom))]
mod interleavings;
mod lately;
mod limits;
mod member;
#[doc(hidden)]
pub mod motion;
mod node;
mod options;
mod owner;
mod page;
mod parts;
mod peers;
mod purse;
mod replay;
mod rules;
mod shares;
mod shelf;
mod slip;
mod store;
mod sync;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod till;
#[doc(hidden)]
pub mod view;
#[doc(hidden)]
pub mod window;
#[doc(hidden)]
pub mod wire;

pub use bulletin::{Board, Bulletin, NotPosted, Note, NotesLost};
pub use council::CouncilOptions;
pub use member::{Generation, Member};
pub use node::{
    Decided, GivenUp, Holding, Lane, Node, NotGivenUp, Output, PeerClock, Reset, Sight, Standing, Ticket,
};
pub use options::{Consistency, MeshOptions, OnUnreachable};
pub use owner::{NodeId, UnusableName};
pub use store::{Carrier, MeshStore, Sent};
pub use view::{View, ViewId};
