//! A node of the mesh that runs within this service: started as it is configured, told which rules are in
//! force, asked how it is, and taken out of its mesh before the service ends.

use super::due::{Due, due, seconds};
use super::matters::{alone, matters};
use super::name::NodeName;
use super::settings::settings;
use super::{fingerprint, own_name, peers};
use crate::config::gateway::Routing;
use crate::config::{Mesh as MeshConfiguration, RateLimiting};
use crate::health::Health;
use anyhow::Context;
use hivemind_core::{Clock, Rules, SystemClock};
use hivemind_mesh::Board;
use hivemind_mesh::{GivenUp, NodeId, NotGivenUp};
use hivemind_mesh_net::{Mesh, Peer, PeerStore, Rounds, Transport};
use hivemind_telemetry::mesh_metrics::{Latencies, MeshMetrics, PeerMetrics};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often it is asked whether it may serve, and after how many times what is the matter.
const LOOK: Duration = Duration::from_millis(50);
const LOOKS: u32 = 20;

/// A node of the mesh that runs.
pub(crate) struct RunningMesh {
    mesh: Mesh,
    name: String,
    /// After which silence a peer is told of.
    staleness: Duration,
    /// What the rules and the gateway's limits are, as peers are told.
    told: Mutex<(String, String)>,
    /// Round trips to each peer, looked at once a second.
    latencies: Mutex<BTreeMap<NodeId, Latencies>>,
    /// Its private key, and whether everybody could read it when it was last looked at.
    key: PathBuf,
    is_exposed: AtomicBool,
    /// Whether a later process has its name.
    is_outdated: AtomicBool,
    /// Whether it was told that the CA ends.
    is_ca_told: AtomicBool,
    /// Whoever lists peers looks at every counter: one at a time.
    listing: Arc<tokio::sync::Mutex<()>>,
    /// What each held when that was last summed up.
    held_last: Mutex<BTreeMap<NodeId, u64>>,
}

impl RunningMesh {
    /// Starts a node; it finds its peers by itself from here on.
    pub(crate) async fn start(
        mesh: &MeshConfiguration,
        limiting: &RateLimiting,
    ) -> anyhow::Result<Arc<Self>> {
        let variable = |name: &str| std::env::var(name).ok();
        let name = own_name::own_name(mesh.node_id.as_ref(), variable, &mesh.tls)?.to_string();
        let settings = settings(mesh, limiting, &name);
        let key = mesh.tls.key.clone();
        let mesh = Mesh::start(settings, Arc::new(SystemClock)).await.context("the mesh")?;
        tracing::info!(node_id = %name, address = %mesh.address(), "a node of a mesh");
        let running = Self {
            mesh,
            name,
            staleness: limiting.staleness_threshold,
            told: Mutex::default(),
            latencies: Mutex::default(),
            key,
            is_exposed: AtomicBool::default(),
            is_outdated: AtomicBool::default(),
            is_ca_told: AtomicBool::default(),
            listing: Arc::default(),
            held_last: Mutex::default(),
        };
        running.look_at_key();
        Ok(Arc::new(running))
    }

    /// What this node is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Where peers reach it.
    pub(crate) fn address(&self) -> SocketAddr {
        self.mesh.address()
    }

    /// The counters that it shares.
    pub(crate) fn store(&self) -> PeerStore {
        self.mesh.store()
    }

    /// The notes that it has in common with its peers.
    pub(crate) fn board(&self) -> Arc<Board> {
        self.mesh.board()
    }

    /// Whether peers agree that this node's clock is off.
    pub(crate) fn is_clock_off(&self) -> bool {
        self.mesh.is_clock_off()
    }

    /// Tells peers which rules are in force.
    pub(crate) fn rules_are(&self, rules: &Rules) {
        self.tell(|told| told.0 = fingerprint::of_rules(rules));
    }

    /// Tells peers which limits the gateway has.
    pub(crate) fn gateway_is(&self, routing: &Routing) {
        self.tell(|told| told.1 = fingerprint::of_gateway(routing));
    }

    fn tell(&self, change: impl FnOnce(&mut (String, String))) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut told);
        self.mesh.rules_loaded(fingerprint::of_all(&told.0, &told.1));
    }

    /// Keeps the service's health as the mesh is, for ever.
    pub(crate) async fn keep_health(self: Arc<Self>, health: Arc<Health>) {
        let mut ticks = tokio::time::interval(LOOK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        for look in 0_u32.. {
            ticks.tick().await;
            health.mesh_is(self.mesh.is_ready() && !self.is_outdated.load(Ordering::Relaxed));
            if look % LOOKS == 0 {
                self.look(&health);
                self.look_at_key();
                self.measure();
            }
        }
    }

    /// Writes down how long a packet takes to each peer and back.
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

    /// Tells the service's health how the mesh is now.
    pub(crate) fn look(&self, health: &Health) {
        let is_ready = self.mesh.is_ready();
        let standing = self.mesh.standing();
        // Peers do not listen to it any more: whatever it decides, it decides alone.
        let is_outdated = standing.outdated_by.is_some();
        self.is_outdated.store(is_outdated, Ordering::Relaxed);
        health.mesh_is(is_ready && !is_outdated);
        let mut matters = if is_ready { matters(&standing, self.staleness) } else { Vec::new() };
        matters.extend(self.mesh.unmet().map(|unmet| alone(&unmet)));
        health.mesh_matter_is((!matters.is_empty()).then(|| matters.join("; ")));
        let is_off = standing.is_outlier;
        health.clock_among_peers_is(
            is_off.then(|| "peers agree that this node's clock is off: set it".to_owned()),
        );
        let due = due(&self.mesh.certificates(), SystemClock.now());
        let is_ca = matches!(due, Some(Due::Ca(_)));
        if is_ca && !self.is_ca_told.swap(is_ca, Ordering::Relaxed) {
            tracing::warn!("{}", due.map(Due::told).unwrap_or_default());
        }
        self.is_ca_told.store(is_ca, Ordering::Relaxed);
        health.mesh_certificate_is(due.map(Due::told));
    }

    /// Warns once where everybody on this machine can read the private key: whoever has it can be this node.
    fn look_at_key(&self) {
        let is_exposed = hivemind_tls::is_exposed(&self.key);
        if is_exposed && !self.is_exposed.swap(is_exposed, Ordering::Relaxed) {
            let key = self.key.display();
            tracing::warn!(
                "`mesh.tls.key`: everybody on this machine can read {key}; `chmod 600 {key}` ends that"
            );
        }
        self.is_exposed.store(is_exposed, Ordering::Relaxed);
    }

    /// Takes this node out of the view while it serves on; says whether that was done in time.
    pub(crate) async fn withdraw(&self, patience: Duration) -> bool {
        self.mesh.withdraw(patience).await
    }

    /// Ends its connections.
    pub(crate) async fn close(&self) {
        self.mesh.leave(Duration::ZERO).await;
    }

    /// Every peer, as the API shows it. What they hold is summed up over all counters, one part of them after the
    /// other: beside what decides, and once at a time, however many ask.
    pub(crate) async fn peers(self: Arc<Self>) -> serde_json::Value {
        let alone = Arc::clone(&self.listing).lock_owned().await;
        let this = self;
        let shown = tokio::task::spawn_blocking(move || {
            // Whoever asked may be gone; this is not.
            let _alone = alone;
            let peers = this.mesh.peers();
            let held = peers.iter().map(|peer| (peer.name.clone(), peer.rights_held)).collect();
            *this.held_last.lock().unwrap_or_else(PoisonError::into_inner) = held;
            peers::shown(&peers)
        });
        shown.await.unwrap_or_else(|_| peers::shown(&[]))
    }

    /// The same, with what they held when that was last summed up: it costs next to nothing.
    pub(crate) fn contacts(&self) -> serde_json::Value {
        let mut peers = self.mesh.contacts();
        let held = self.held_last.lock().unwrap_or_else(PoisonError::into_inner);
        for peer in &mut peers {
            peer.rights_held = held.get(&peer.name).copied().unwrap_or_default();
        }
        peers::shown(&peers)
    }

    /// Gives up a peer that an operator knows to be gone for good: the next view is without it.
    pub(crate) fn give_up(&self, name: &str) -> Result<GivenUp, NotGivenUp> {
        // What cannot be a name is nobody's.
        let peer = NodeName::parse(name).map_err(|_| NotGivenUp::Unknown)?.to_string();
        let given_up = self.mesh.give_up(&NodeId::new(peer.as_str()));
        match &given_up {
            Ok(GivenUp::Member) => {
                tracing::warn!(%peer, "a peer is forgotten, as an operator wants it: the next view is without it");
            }
            Ok(GivenUp::NoMember) => {}
            Err(why) => tracing::info!(%peer, %why, "a peer is not forgotten"),
        }
        given_up
    }

    /// The last rounds in which it told its peers anything.
    pub(super) fn rounds(&self) -> Rounds {
        self.mesh.rounds()
    }

    /// How many counters it keeps with its peers.
    pub(crate) fn keys(&self) -> usize {
        self.mesh.standing().keys
    }

    /// What is counted.
    pub(crate) fn metrics(&self) -> MeshMetrics {
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
            notes_unbelieved: notes.unbelieved,
            notes_unheard: notes.unheard,
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
