//! Limits shared by peers, with no central store. This crate will hold the mesh's
//! state machine, which does no I/O, and the adapters that carry its frames.
//!
//! There is one part of it yet: [`Members`], which tells every peer, without asking
//! anybody, which of them owns a key. Rights, views, frames and transport are not there.
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
mod chain;
mod codec;
mod council;
mod dictionary;
mod frame;
mod member;
mod motion;
mod node;
mod options;
mod owner;
mod page;
mod peers;
mod purse;
mod shelf;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
mod store;
mod till;
mod view;
mod wire;

pub use council::CouncilOptions;
pub use member::{Generation, Member};
pub use node::{Decided, Lane, Node, Output, Standing, Ticket};
pub use options::{Consistency, MeshOptions, OnUnreachable};
pub use owner::{Members, NodeId};
pub use store::{Carrier, MeshStore};
pub use view::{View, ViewId};
