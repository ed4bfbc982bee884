//! Real peers: the state machine on the wire. Connections, who is called, and what time brings;
//! every decision is the state machine's.

mod dialer;
mod discovery;
mod greeting;
mod hello;
mod identity;
mod link;
mod links;
mod mesh;
mod message;
mod quic;
mod roster;
mod tcp;

pub use identity::{Identity, IdentityError, TlsFiles};
pub use link::Transport;
pub use mesh::{Mesh, MeshSettings, Peer, StartError};
