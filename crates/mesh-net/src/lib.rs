//! Transport of the mesh: QUIC and TCP connections, discovery, handshake, identity, and the tasks that drive the state
//! machine of `hivemind_mesh`, which makes every decision. Terms: `docs/GLOSSARY.md`.
//!
//! ```
//! use hivemind_core::SystemClock;
//! use hivemind_mesh_net::{Discovery, Mesh, MeshSettings, MeshTlsFiles};
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
//!     discovery: Discovery::default(), // It dials no peers, but others may join.
//!     max_peers: 100,
//!     tls: MeshTlsFiles { ca: file("ca.crt"), cert: file("a.crt"), key: file("a.key") },
//!     options: MeshOptions::default(),
//! };
//! let mesh = Mesh::start(settings, Arc::new(SystemClock)).await?;
//! assert!(mesh.is_ready() && mesh.peers().is_empty() && mesh.contacts().is_empty());
//! assert!(mesh.standing().is_member && !mesh.is_clock_off() && mesh.isolation().is_none());
//! mesh.set_rules(7); // Equal rules have equal fingerprints on all nodes.
//! assert!(mesh.board().is_shared() && mesh.address().port() != 0 && mesh.callers_refused() == 0);
//! assert!(mesh.certificates().own_until > mesh.certificates().renew_from && !mesh.reload_identity()?);
//! assert!(mesh.forget_peer(&NodeId::parse("b")?).is_err()); // The peer is unknown.
//! assert!(mesh.tick_reports().sync.is_none()); // It has no peers.
//! mesh.withdraw(Duration::ZERO).await; // It continues to serve ...
//! mesh.leave(Duration::ZERO).await; // ... until it closes.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod acceptor;
mod caller_limits;
mod certificate_watch;
mod context;
mod dial_schedule;
mod dialer;
mod discovery;
mod handshake;
mod identity;
mod isolation;
mod link;
mod links;
mod mdns;
mod mesh;
mod message;
mod name_lookup;
mod peer;
mod peer_events;
mod peer_list;
mod peer_table;
mod quic;
mod replication;
mod session;
mod settings;
mod srv;
mod tcp;
mod tick_report;
mod ticker;
mod traffic;

pub use identity::{Certificates, MeshTlsFiles, NodeIdentityError};
pub use isolation::Isolation;
pub use link::Transport;
pub use mesh::{Mesh, PeerStore};
pub use peer::{Peer, PeerState};
pub use quic::EndpointError;
pub use settings::{Discovery, MeshSettings, MeshStartError};
pub use tick_report::{TickReport, TickReports};

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, even if a task panicked while it held the lock: all updates leave the data valid.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
