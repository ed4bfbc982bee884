//! A node of the mesh that runs within this service: started as it is configured, told which rules are in
//! force, asked how it is, and taken out of its mesh before the service ends.

use super::figures::{Latencies, MeshFigures, PeerFigures};
use super::{fingerprint, own_name, peers};
use crate::config::gateway::Routing;
use crate::config::{Mesh as MeshConfiguration, MeshFiles, RateLimiting};
use crate::health::Health;
use anyhow::Context;
use hivemind_core::{Clock, Rules, SystemClock};
use hivemind_mesh::net::{Discovery, Mesh, MeshSettings, Peer, PeerState, PeerStore, TlsFiles, Unmet};
use hivemind_mesh::{CouncilOptions, MeshOptions, NodeId, Standing};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often it is asked whether it may serve, and after how many times what is the matter.
const LOOK: Duration = Duration::from_millis(50);
const LOOKS: u32 = 20;
/// The most names in a line.
const MOST_NAMES: usize = 5;

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
        let mesh = Mesh::start(settings, Arc::new(SystemClock)).await.context("the mesh")?;
        tracing::info!(node_id = %name, address = %mesh.address(), "a node of a mesh");
        let staleness = limiting.staleness_threshold;
        Ok(Arc::new(Self { mesh, name, staleness, told: Mutex::default(), latencies: Mutex::default() }))
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
            health.mesh_is(self.mesh.is_ready());
            if look % LOOKS == 0 {
                self.look(&health);
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
        health.mesh_is(is_ready);
        let mut matters = if is_ready { matters(&self.mesh.standing(), self.staleness) } else { Vec::new() };
        matters.extend(self.mesh.unmet().map(|unmet| alone(&unmet)));
        if matters.is_empty() {
            health.whole();
        } else {
            health.degraded(matters.join("; "));
        }
        let certificates = self.mesh.certificates();
        let is_due = certificates.renew_from <= SystemClock.now();
        health.mesh_certificate_is(is_due.then(|| {
            let ends = crate::tls::at(certificates.own_until);
            format!("the mesh's certificate ends {ends}; make a new one by `hivemind certs node`")
        }));
    }

    /// Takes this node out of the view while it serves on; says whether that was done in time.
    pub(crate) async fn withdraw(&self, patience: Duration) -> bool {
        self.mesh.withdraw(patience).await
    }

    /// Ends its connections.
    pub(crate) async fn close(&self) {
        self.mesh.leave(Duration::ZERO).await;
    }

    /// Every peer, as the API shows it.
    pub(crate) fn peers(&self) -> serde_json::Value {
        peers::shown(&self.mesh.peers())
    }

    /// What is counted.
    pub(crate) fn figures(&self) -> MeshFigures {
        let standing = self.mesh.standing();
        let latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        let of_peer = |peer: &Peer| of_peer(peer, latencies.get(&peer.name).copied().unwrap_or_default());
        MeshFigures {
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
            certificate_expiry: Some(self.mesh.certificates().own_until.as_nanos() / 1_000_000_000),
        }
    }
}

fn micros(trip: Option<Duration>) -> Option<u64> {
    trip.map(|trip| u64::try_from(trip.as_micros()).unwrap_or(u64::MAX))
}

fn of_peer(peer: &Peer, latencies: Latencies) -> PeerFigures {
    PeerFigures {
        name: peer.name.to_string(),
        is_active: peer.state == PeerState::Alive,
        bytes_sent: peer.bytes_out,
        bytes_received: peer.bytes_in,
        frames_lost: peer.frames_lost,
        updates_sent: peer.frames_out,
        updates_received: peer.frames_in,
        round_trip_us: micros(peer.round_trip),
        latencies,
        clock_offset_us: peer.clock_offset_us,
    }
}

/// Everything about the mesh that an operator should know.
fn matters(standing: &Standing, staleness: Duration) -> Vec<String> {
    let mut matters = Vec::new();
    if let Some(other) = standing.outdated_by {
        matters.push(format!(
            "another node of this name runs, or ran by a clock that was ahead (its run is {}): give each node a name of its own",
            other.0
        ));
    }
    if standing.is_outlier {
        matters.push("this node's clock is off: set it".to_owned());
    }
    if standing.is_in_doubt {
        matters.push("this node waits for peers to say which view counts: it begins no window".to_owned());
    }
    if !standing.other_rules.is_empty() {
        matters.push(format!("peers that go by other rules: {}", list(&standing.other_rules)));
    }
    let is_member = |id: &NodeId| standing.members.iter().any(|member| member.id == *id);
    let silent = standing.ages.iter().filter(|(id, age)| *age > staleness && is_member(id));
    let silent: Vec<NodeId> = silent.map(|(id, _)| id.clone()).collect();
    if !silent.is_empty() {
        matters.push(format!("members that are silent, whose share is held for them: {}", list(&silent)));
    }
    let off = standing.clocks.iter().filter(|clock| clock.is_quarantined);
    let off: Vec<NodeId> = off.map(|clock| clock.id.clone()).collect();
    if !off.is_empty() {
        matters.push(format!("peers whose clock is off: {}", list(&off)));
    }
    matters
}

/// That peers are configured and none was ever met.
fn alone(unmet: &Unmet) -> String {
    let Unmet { addresses, reason, .. } = unmet;
    format!(
        "none of the peers that `mesh.bootstrap_peers` and `mesh.dns` name was ever met, at {addresses} addresses \
         ({reason}): this node counts alone, and so may each of them"
    )
}

fn list(names: &[NodeId]) -> String {
    let shown: Vec<&str> = names.iter().take(MOST_NAMES).map(NodeId::as_str).collect();
    let more = names.len().saturating_sub(MOST_NAMES);
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}

fn settings(mesh: &MeshConfiguration, limiting: &RateLimiting, name: &str) -> MeshSettings {
    let MeshFiles { ca, cert, key } = mesh.tls.clone();
    let council = CouncilOptions {
        staleness: limiting.staleness_threshold,
        most_members: mesh.max_peers + 1,
        ..CouncilOptions::default()
    };
    MeshSettings {
        name: NodeId::new(name),
        cluster: mesh.cluster_id.clone(),
        bind: mesh.bind,
        advertise: mesh.advertise.ip,
        advertise_port: mesh.advertise.port,
        discovery: Discovery {
            peers: mesh.bootstrap_peers.clone(),
            dns: mesh.dns.iter().cloned().collect(),
            nameservers: Vec::new(),
            mdns: mesh.mdns,
        },
        max_peers: mesh.max_peers,
        tls: TlsFiles { ca, cert, key },
        options: MeshOptions {
            on_unreachable: mesh.on_unreachable,
            sync_interval: mesh.sync_interval,
            ask_timeout: mesh.ask_timeout,
            max_keys: limiting.max_keys.get(),
            bandwidth_limit: Some(mesh.bandwidth_limit),
            council,
            ..MeshOptions::default()
        },
    }
}
