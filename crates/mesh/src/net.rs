//! Real peers: the state machine on the wire. Connections, who is called, and what time brings;
//! every decision is the state machine's.

mod bulletins;
mod calls;
mod census;
mod dialer;
mod door;
mod greeting;
mod hello;
mod host;
mod identity;
mod link;
mod links;
mod lookout;
mod mdns;
mod mesh;
mod message;
mod news;
mod peer;
mod quic;
mod roster;
mod round;
mod session;
mod settings;
mod srv;
mod tcp;
mod traffic;
mod unmet;

pub use crate::bulletin::{Board, Bulletin, NotPosted, Note, NotesLost};
pub use identity::{Certificates, IdentityError, TlsFiles};
pub use link::Transport;
pub use mesh::{Mesh, PeerStore};
pub use peer::{Peer, PeerState};
pub use quic::EndpointError;
pub use round::{Round, Rounds};
pub use settings::{Discovery, MeshSettings, StartError};
pub use unmet::Unmet;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, whatever happened to an earlier holder: what a panicking task held is still good.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
