//! The running mesh node of this service: starts it, announces the active rules, reports its health, and leaves the
//! mesh before shutdown.

use super::expiry_warning::{ExpiryWarning, due, seconds};
use super::name::NodeName;
use super::problems::{alone, problems};
use super::section::MeshSection;
use super::settings::settings;
use super::{fingerprint, own_name, peers};
use crate::health::Health;
use crate::rate_limiting::RateLimiting;
use anyhow::Context;
use hivemind_core::{Clock, Rules, SystemClock};
use hivemind_mesh::MapHandle;
use hivemind_mesh::{ForgetError, ForgetOutcome, NodeId};
use hivemind_mesh_net::{Mesh, Peer, PeerStore, TickReports, Transport};
use hivemind_telemetry::mesh_metrics::{Latencies, MeshMetrics, PeerMetrics};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Interval of readiness checks; every `LOOKS`th one also checks for problems.
const LOOK: Duration = Duration::from_millis(50);
const LOOKS: u32 = 20;

/// The running mesh node.
pub struct RunningMesh {
    mesh: Mesh,
    name: String,
    /// A member that is silent for longer is reported.
    staleness: Duration,
    /// The texts of the rules and of the gateway's limits, whose fingerprint peers receive.
    announced: Mutex<(String, String)>,
    /// Round trip times to each peer, measured once a second.
    latencies: Mutex<BTreeMap<NodeId, Latencies>>,
    /// The private key, and whether all users could read it at the last check.
    key: PathBuf,
    is_exposed: AtomicBool,
    /// Whether a later process uses its name.
    is_outdated: AtomicBool,
    /// Whether the CA's expiry was logged.
    is_ca_expiry_logged: AtomicBool,
    /// Serializes peer lists, because each visits every counter.
    listing: Arc<tokio::sync::Mutex<()>>,
    /// The allowance of each peer at the last summation.
    held_last: Mutex<BTreeMap<NodeId, u64>>,
}

impl RunningMesh {
    /// Starts the node, which then discovers its peers.
    pub async fn start(mesh: &MeshSection, limiting: &RateLimiting) -> anyhow::Result<Arc<Self>> {
        let variable = |name: &str| std::env::var(name).ok();
        let name = own_name::own_name(mesh.node_id.as_ref(), variable, &mesh.tls)?.to_string();
        let settings = settings(mesh, limiting, &name);
        let key = mesh.tls.key.clone();
        let mesh = Mesh::start(settings, Arc::new(SystemClock)).await.context("the mesh")?;
        tracing::info!(node_id = %name, address = %mesh.address(), "mesh node started");
        let running = Self {
            mesh,
            name,
            staleness: limiting.staleness_threshold,
            announced: Mutex::default(),
            latencies: Mutex::default(),
            key,
            is_exposed: AtomicBool::default(),
            is_outdated: AtomicBool::default(),
            is_ca_expiry_logged: AtomicBool::default(),
            listing: Arc::default(),
            held_last: Mutex::default(),
        };
        running.look_at_key();
        Ok(Arc::new(running))
    }

    /// The name of this node.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address that peers connect to.
    pub fn address(&self) -> SocketAddr {
        self.mesh.address()
    }

    /// The store of shared counters.
    pub fn store(&self) -> PeerStore {
        self.mesh.store()
    }

    /// The replicated board, which holds the block list.
    pub(crate) fn board(&self) -> Arc<MapHandle> {
        self.mesh.board()
    }

    /// Whether peers agree that this node's clock is off.
    pub fn is_clock_off(&self) -> bool {
        self.mesh.is_clock_off()
    }

    /// Announces the active rules to peers.
    pub fn rules_are(&self, rules: &Rules) {
        self.announce(|texts| texts.0 = fingerprint::of_rules(rules));
    }

    /// Announces the gateway's limits, in a text form, to peers.
    pub fn gateway_is(&self, limits: String) {
        self.announce(|texts| texts.1 = limits);
    }

    fn announce(&self, change: impl FnOnce(&mut (String, String))) {
        let mut texts = self.announced.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut texts);
        self.mesh.set_rules(fingerprint::of_all(&texts.0, &texts.1));
    }

    /// Reports the node's health until the process ends.
    pub(crate) async fn keep_health(self: Arc<Self>, health: Arc<Health>) {
        let mut ticks = tokio::time::interval(LOOK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        for look in 0_u32.. {
            ticks.tick().await;
            health.set_mesh_membership(self.mesh.is_ready() && !self.is_outdated.load(Ordering::Relaxed));
            if look % LOOKS == 0 {
                self.look(&health);
                self.look_at_key();
                self.measure();
            }
        }
    }

    /// Records the round trip time to each peer.
    fn measure(&self) {
        let contacts = self.mesh.contacts();
        let mut latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        latencies.retain(|name, _| contacts.iter().any(|peer| peer.name == *name));
        for peer in &contacts {
            if let Some(micros) = micros(peer.round_trip) {
                latencies.entry(peer.name.clone()).or_default().observe(micros);
            }
        }
    }

    /// Reports the node's current health.
    pub fn look(&self, health: &Health) {
        let is_ready = self.mesh.is_ready();
        let standing = self.mesh.standing();
        // Peers ignore an outdated node, so it decides alone.
        let is_outdated = standing.outdated_by.is_some();
        self.is_outdated.store(is_outdated, Ordering::Relaxed);
        health.set_mesh_membership(is_ready && !is_outdated);
        let mut problems = if is_ready { problems(&standing, self.staleness) } else { Vec::new() };
        problems.extend(self.mesh.isolation().map(|isolation| alone(&isolation)));
        health.set_mesh_problem((!problems.is_empty()).then(|| problems.join("; ")));
        let is_off = standing.is_outlier;
        health.set_clock_offset_problem(
            is_off.then(|| "peers agree that this node's clock is wrong; synchronize it".to_owned()),
        );
        let due = due(&self.mesh.certificates(), SystemClock.now());
        let is_ca = matches!(due, Some(ExpiryWarning::Ca(_)));
        if is_ca && !self.is_ca_expiry_logged.swap(is_ca, Ordering::Relaxed) {
            tracing::warn!("{}", due.map(ExpiryWarning::description).unwrap_or_default());
        }
        self.is_ca_expiry_logged.store(is_ca, Ordering::Relaxed);
        health.set_mesh_certificate_problem(due.map(ExpiryWarning::description));
    }

    /// Warns once if all users of this machine can read the private key, with which any of them could impersonate this node.
    fn look_at_key(&self) {
        let is_exposed = hivemind_tls::is_exposed(&self.key);
        if is_exposed && !self.is_exposed.swap(is_exposed, Ordering::Relaxed) {
            let key = self.key.display();
            tracing::warn!("`mesh.tls.key`: all users of this machine can read {key}; run `chmod 600 {key}`");
        }
        self.is_exposed.store(is_exposed, Ordering::Relaxed);
    }

    /// Leaves the view while this node still serves; returns whether that succeeded in time.
    pub async fn withdraw(&self, patience: Duration) -> bool {
        self.mesh.withdraw(patience).await
    }

    /// Closes its connections.
    pub async fn close(&self) {
        self.mesh.leave(Duration::ZERO).await;
    }

    /// All peers for the API. Their allowance is summed over all counters, shard by shard, outside the async threads,
    /// and only for one request at a time.
    pub async fn peers(self: Arc<Self>) -> serde_json::Value {
        let alone = Arc::clone(&self.listing).lock_owned().await;
        let this = self;
        let shown = tokio::task::spawn_blocking(move || {
            // Held even if the requester has disconnected.
            let _alone = alone;
            let peers = this.mesh.peers();
            let held = peers.iter().map(|peer| (peer.name.clone(), peer.rights_held)).collect();
            *this.held_last.lock().unwrap_or_else(PoisonError::into_inner) = held;
            peers::shown(&peers)
        });
        shown.await.unwrap_or_else(|_| peers::shown(&[]))
    }

    /// Like [`RunningMesh::peers`], but with the allowance of the last summation, which is cheap.
    pub fn contacts(&self) -> serde_json::Value {
        let mut peers = self.mesh.contacts();
        let held = self.held_last.lock().unwrap_or_else(PoisonError::into_inner);
        for peer in &mut peers {
            peer.rights_held = held.get(&peer.name).copied().unwrap_or_default();
        }
        peers::shown(&peers)
    }

    /// Removes a peer from the next view, on an operator's request.
    pub fn give_up(&self, name: &str) -> Result<ForgetOutcome, ForgetError> {
        // An invalid name belongs to no peer.
        let peer = NodeName::parse(name).map_err(|_| ForgetError::Unknown)?.to_string();
        let given_up = self.mesh.forget_peer(&NodeId::new(peer.as_str()));
        match &given_up {
            Ok(ForgetOutcome::Member) => {
                tracing::warn!(%peer, "peer forgotten by an operator; the next view excludes it");
            }
            Ok(ForgetOutcome::NoMember) => {}
            Err(why) => tracing::info!(%peer, %why, "peer not forgotten"),
        }
        given_up
    }

    /// The last rounds that sent anything to peers.
    pub(super) fn tick_reports(&self) -> TickReports {
        self.mesh.tick_reports()
    }

    /// Number of counters shared with peers.
    pub fn keys(&self) -> usize {
        self.mesh.standing().keys
    }

    /// Metrics of the mesh.
    pub fn metrics(&self) -> MeshMetrics {
        let (standing, certificates) = (self.mesh.standing(), self.mesh.certificates());
        let notes = self.mesh.board().lost();
        let latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        let of_peer = |peer: &Peer| of_peer(peer, latencies.get(&peer.name).copied().unwrap_or_default());
        MeshMetrics {
            peers: self.mesh.contacts().iter().map(of_peer).collect(),
            members: standing.members.len() as u64,
            keys: standing.keys as u64,
            unshared: standing.unshared,
            beyond_rights: standing.beyond_rights,
            asks: standing.asked,
            waited: standing.waited,
            overadmission: standing.overadmission,
            overlaps: standing.overlaps,
            unreadable: standing.unreadable,
            callers_refused: self.mesh.callers_refused(),
            notes_dropped: notes.dropped,
            notes_unbelieved: notes.rejected,
            notes_unheard: notes.rate_limited,
            certificate_expiry: Some(seconds(certificates.own_until)),
            ca_expiry: Some(seconds(certificates.ca_until)),
        }
    }
}

fn micros(trip: Option<Duration>) -> Option<u64> {
    trip.map(|trip| u64::try_from(trip.as_micros()).unwrap_or(u64::MAX))
}

fn of_peer(peer: &Peer, latencies: Latencies) -> PeerMetrics {
    PeerMetrics {
        name: peer.name.to_string(),
        state: peer.state.as_str(),
        transport: peer.transport.map_or("none", Transport::as_str),
        bytes_sent: peer.bytes_out,
        bytes_received: peer.bytes_in,
        frames_lost: peer.frames_lost,
        messages_sent: peer.frames_out,
        messages_received: peer.frames_in,
        round_trip_us: micros(peer.round_trip),
        latencies,
        clock_offset_us: peer.clock_offset_us,
    }
}
