//! Limits shared by peers, with no central store: a state machine without I/O. Requests,
//! frames and ticks go into a [`Node`], with the time; decisions and frames come out. A
//! [`MeshStore`] is the same behind core's store port.
//!
//! A node decides alone while it holds rights to a key, and asks the key's owner when it does
//! not. What all hold together is never more than the limit: an owner's grant is a spending on
//! the counter it keeps, made before it is told. Who the members are is agreed before a window
//! begins (docs/decisions/012 and 013).
//!
//! ```
//! use hivemind_core::store::Key;
//! use hivemind_mesh::{Members, NodeId};
//!
//! let key = Key::from_bits(7, 11);
//! let here = Members::new(["a", "b", "c"].map(NodeId::new));
//! let there = Members::new(["c", "a", "b"].map(NodeId::new));
//! assert_eq!(here.owner(key), there.owner(key));
//! ```

mod batch;
mod book;
mod books;
mod chain;
mod clock;
mod codec;
mod council;
mod dictionary;
mod frame;
mod guard;
#[cfg(all(test, loom))]
mod interleavings;
mod member;
mod motion;
#[cfg(feature = "net")]
pub mod net;
mod node;
mod options;
mod owner;
mod page;
mod parts;
mod peers;
mod purse;
mod replay;
mod rules;
mod shelf;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
mod slip;
mod store;
mod sync;
mod till;
mod view;
mod wire;

pub use council::CouncilOptions;
pub use member::{Generation, Member};
pub use node::{Decided, Lane, Node, Output, PeerClock, Standing, Ticket};
pub use options::{Consistency, MeshOptions, OnUnreachable};
pub use owner::{Members, NodeId};
pub use store::{Carrier, MeshStore};
pub use view::{View, ViewId};
