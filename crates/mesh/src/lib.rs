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

mod chain;
mod council;
mod member;
mod motion;
mod owner;
mod peers;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
mod view;

pub use council::CouncilOptions;
pub use member::{Generation, Member};
pub use owner::{Members, NodeId};
pub use view::{View, ViewId};
