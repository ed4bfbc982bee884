//! Real peers: the state machine on the wire. Connections, who is called, and what time brings;
//! every decision is the state machine's.
//!
//! ```
//! use hivemind_core::SystemClock;
//! use hivemind_mesh_net::{Discovery, Mesh, MeshSettings, TlsFiles};
//! use hivemind_mesh::{MeshOptions, NodeId};
//! use std::{sync::Arc, time::Duration};
//!
//! # let folder = tempfile::tempdir()?;
//! # let file = |name: &str| folder.path().join(name);
//! # let ca_key = rcgen::KeyPair::generate()?;
//! # let mut ca = rcgen::CertificateParams::new(Vec::new())?;
//! # ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
//! # std::fs::write(file("ca.crt"), ca.self_signed(&ca_key)?.pem())?;
//! # let mut own = rcgen::CertificateParams::new(["a".to_owned()])?;
//! # own.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth, rcgen::ExtendedKeyUsagePurpose::ClientAuth];
//! # let own_key = rcgen::KeyPair::generate()?;
//! # std::fs::write(file("a.crt"), own.signed_by(&own_key, &rcgen::Issuer::new(ca, ca_key))?.pem())?;
//! # std::fs::write(file("a.key"), own_key.serialize_pem())?;
//! # tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(async {
//! let settings = MeshSettings {
//!     name: NodeId::parse("a")?,
//!     cluster: "shop".into(),
//!     bind: "127.0.0.1:0".parse()?,
//!     advertise: None,
//!     advertise_port: None,
//!     discovery: Discovery::default(), // Nobody is looked for: others may join.
//!     max_peers: 100,
//!     tls: TlsFiles { ca: file("ca.crt"), cert: file("a.crt"), key: file("a.key") },
//!     options: MeshOptions::default(),
//! };
//! let mesh = Mesh::start(settings, Arc::new(SystemClock)).await?;
//! assert!(mesh.is_ready() && mesh.peers().is_empty() && mesh.contacts().is_empty());
//! assert!(mesh.standing().is_member && !mesh.is_clock_off() && mesh.unmet().is_none());
//! mesh.rules_loaded(7); // Equal rules have equal fingerprints on all nodes.
//! assert!(mesh.board().is_shared() && mesh.address().port() != 0 && mesh.callers_refused() == 0);
//! assert!(mesh.certificates().own_until > mesh.certificates().renew_from && !mesh.reload_identity()?);
//! assert!(mesh.give_up(&NodeId::parse("b")?).is_err()); // Nobody has that name.
//! assert!(mesh.rounds().sync.is_none()); // It has nobody to tell.
//! mesh.withdraw(Duration::ZERO).await; // It serves on ...
//! mesh.leave(Duration::ZERO).await; // ... and ends.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
