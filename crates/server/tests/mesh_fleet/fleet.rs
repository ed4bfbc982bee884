//! Nodes that share their limits, on loopback or each in a namespace of its own.

use crate::authority::Authority;
use crate::delay::Way;
use crate::moment::{SECOND, begin, now, until, until_so, window};
use crate::network::Network;
use crate::node::Node;
use hivemind_testkit::DEADLINE;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Ports below those that the kernel deals out by itself.
const FIRST_PORT: u32 = 20_000;
const PORTS: u32 = 12_000;
/// The clock of a node is so many milliseconds off.
const CLOCK_OFFSET: &str = "HIVEMIND_TEST_CLOCK_OFFSET_MS";

/// What a fleet is to be like.
pub(crate) struct Plan {
    count: usize,
    rules: String,
    mesh: Value,
    in_namespaces: bool,
    way: Option<Duration>,
    clocks: Vec<(usize, i64)>,
    name: Option<String>,
}

impl Plan {
    /// So many nodes on loopback, with these rules of the domain `d`.
    pub(crate) fn new(count: usize, descriptors: &str) -> Self {
        let mesh = json!({"cluster_id": "fleet"});
        let rules = format!("domain: d\ndescriptors:\n{descriptors}");
        Self { count, rules, mesh, in_namespaces: false, way: None, clocks: Vec::new(), name: None }
    }

    /// The rules are of another domain.
    pub(crate) fn for_domain(self, domain: &str) -> Self {
        let rules = self.rules.replacen("domain: d\n", &format!("domain: {domain}\n"), 1);
        Self { rules, ..self }
    }

    /// Each in a namespace of its own.
    pub(crate) fn in_namespaces(self) -> Self {
        Self { in_namespaces: true, ..self }
    }

    /// They listen at every address, advertise none, and find each other behind a name; for nodes in namespaces. Who is
    /// behind it is said by [`Fleet::name`].
    pub(crate) fn behind(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    /// What goes between two of them takes so long in each direction.
    pub(crate) fn far_apart(self, way: Duration) -> Self {
        Self { way: Some(way), ..self }
    }

    /// The clock of a node is so many milliseconds ahead.
    pub(crate) fn clock(mut self, index: usize, ahead_ms: i64) -> Self {
        self.clocks.push((index, ahead_ms));
        self
    }

    /// An owner is waited for longer than by default, because many tests share the machine: for those of what is exact,
    /// where nothing shall be decided by a time-out.
    pub(crate) fn patient(self) -> Self {
        self.with("ask_timeout_ms", json!(400))
    }

    /// With a setting below `mesh`.
    pub(crate) fn with(mut self, key: &str, value: Value) -> Self {
        self.mesh[key] = value;
        self
    }

    /// Starts all nodes and waits until all share one view. None where namespaces are not to be had.
    pub(crate) async fn start(self) -> Option<Fleet> {
        let mut fleet = self.prepare().await?;
        for index in 0..fleet.nodes.len() {
            fleet.start(index).await;
        }
        fleet.settled().await;
        Some(fleet)
    }

    /// The same, with no node started.
    pub(crate) async fn prepare(self) -> Option<Fleet> {
        let network = if self.in_namespaces { Some(Network::start(self.count).await?) } else { None };
        let folder = tempfile::tempdir().unwrap();
        let authority = Authority::new("The CA of a fleet");
        let port = port();
        let places: Vec<Place> = (0..self.count).map(|index| self.place(index, port)).collect();
        let peers: Vec<String> = places.iter().map(|place| place.called_at.to_string()).collect();
        let (mut nodes, mut ways) = (Vec::new(), Vec::new());
        for (index, place) in places.iter().enumerate() {
            let name = format!("node-{index}");
            let own = folder.path().join(&name);
            std::fs::create_dir(&own).unwrap();
            let mut mesh = self.mesh.clone();
            mesh["node_id"] = json!(name);
            if let Some(name) = &self.name {
                mesh["bind"] = json!(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port));
                mesh["dns"] = json!(name);
            } else {
                mesh["bind"] = json!(place.binds);
                mesh["advertise"] = json!(place.called_at.ip());
                mesh["bootstrap_peers"] = json!(peers);
            }
            mesh["tls"] = authority.equip(&own, &name);
            write_settings(&own, &mesh, &self.rules);
            let mut node = Node::new(&name, own, place.called_at);
            if let Some((_, ahead_ms)) = self.clocks.iter().find(|(whose, _)| *whose == index) {
                node.variable(CLOCK_OFFSET, &ahead_ms.to_string());
            }
            if self.name.is_some() {
                node.hosts = Some(folder.path().join("hosts"));
            }
            if let Some(way) = self.way {
                ways.push(Way::open(place.called_at, place.binds, way).await);
            }
            nodes.push(node);
        }
        Some(Fleet { nodes, network, authority, folder, _ways: ways })
    }

    /// On loopback every node has an address of its own, so that one port does for all.
    fn place(&self, index: usize, port: u16) -> Place {
        if self.in_namespaces {
            let address = SocketAddr::new(Network::address(index).parse().unwrap(), port);
            return Place { binds: address, called_at: address };
        }
        let number = u8::try_from(index + 1).unwrap();
        let at = |block| SocketAddr::new(loopback(block, number), port);
        let called_at = if self.way.is_some() { at(1) } else { at(0) };
        Place { binds: at(0), called_at }
    }
}

struct Place {
    binds: SocketAddr,
    called_at: SocketAddr,
}

/// An address of this test's own, out of the sixteen million that loopback has.
fn loopback(block: u8, number: u8) -> IpAddr {
    let process = std::process::id();
    let [_, high, middle, low] = process.to_be_bytes();
    let second = 64 + (high ^ middle) % 32 + 32 * (block & 1);
    IpAddr::V4(Ipv4Addr::new(127, second, low, number))
}

/// A port that is free at the first of these addresses, and so most probably at all.
fn port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    for _ in 0..PORTS {
        let offset = (std::process::id() * 37 + NEXT.fetch_add(1, Ordering::Relaxed)) % PORTS;
        let port = u16::try_from(FIRST_PORT + offset).unwrap();
        if UdpSocket::bind((loopback(0, 1), port)).is_ok() {
            return port;
        }
    }
    panic!("no port is free");
}

/// Writes what a node is told into its folder.
pub(crate) fn write_settings(folder: &Path, mesh: &Value, rules: &str) {
    let settings = json!({
        "server": {"grpc_port": 0, "admin_port": 0, "metrics_port": 0,
            "grpc_uds": folder.join("grpc.sock"), "admin_uds": folder.join("admin.sock")},
        "rate_limiting": {"config_path": folder.join("rules.yaml")},
        "storage": {"kind": "mesh"},
        "mesh": mesh,
    });
    // Whatever is JSON is YAML, too.
    std::fs::write(folder.join("config.yaml"), settings.to_string()).unwrap();
    std::fs::write(folder.join("rules.yaml"), rules).unwrap();
}

/// Has a node keep its counters to itself, for comparison.
pub(crate) fn keep_in_memory(folder: &Path) {
    let file = folder.join("config.yaml");
    let mut settings: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    settings["storage"] = json!({"kind": "memory"});
    settings.as_object_mut().unwrap().remove("mesh");
    std::fs::write(file, settings.to_string()).unwrap();
}

pub(crate) struct Fleet {
    pub(crate) nodes: Vec<Node>,
    pub(crate) network: Option<Network>,
    pub(crate) authority: Authority,
    pub(crate) folder: tempfile::TempDir,
    _ways: Vec<Way>,
}

impl Fleet {
    /// Starts a node that does not run.
    pub(crate) async fn start(&mut self, index: usize) {
        let place = self.network.as_ref().map(|network| (network, index));
        self.nodes[index].start(place).await;
    }

    /// Who is behind a name from now on, in the file that nodes in namespaces have for `/etc/hosts`. It is written in
    /// its place: they see what is in it, not which file has its name.
    pub(crate) fn name(&self, name: &str, nodes: &[usize]) {
        let lines = nodes.iter().map(|&index| format!("{} {name}\n", Network::address(index)));
        std::fs::write(self.folder.path().join("hosts"), lines.collect::<String>()).unwrap();
    }

    pub(crate) fn network(&self) -> &Network {
        self.network.as_ref().expect("a fleet in namespaces")
    }

    /// A number of a node's page of metrics, 0 where there is none.
    pub(crate) async fn metric(&self, index: usize, series: &str) -> f64 {
        let place = self.network.as_ref().map(|network| (network, index));
        let page = self.nodes[index].metrics(place).await;
        let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map_or(0.0, |number| number.parse().unwrap())
    }

    /// The sum of a number over all nodes that run.
    pub(crate) async fn sum(&self, series: &str) -> f64 {
        let mut sum = 0.0;
        for index in 0..self.nodes.len() {
            if self.nodes[index].runs() {
                sum += self.metric(index, series).await;
            }
        }
        sum
    }

    /// Waits until all nodes that run see each other and decide in one view: it is agreed on some two seconds before
    /// windows begin in it.
    pub(crate) async fn settled(&self) {
        self.agreed().await;
        let next = begin(window(now(), SECOND) + 4, SECOND);
        until(next).await;
    }

    async fn agreed(&self) {
        let running: Vec<usize> = (0..self.nodes.len()).filter(|&index| self.nodes[index].runs()).collect();
        for &index in &running {
            let agreed = until_so(async || self.is_settled(index, running.len()).await);
            let is_agreed = tokio::time::timeout(DEADLINE, agreed).await.is_ok();
            assert!(is_agreed, "waited {DEADLINE:?} for peers of node {index}: {}", self.shown().await);
        }
    }

    /// How the nodes that run see each other.
    async fn shown(&self) -> String {
        let mut shown = String::new();
        for index in (0..self.nodes.len()).filter(|&index| self.nodes[index].runs()) {
            let members = self.metric(index, "hivemind_mesh_members").await;
            let _ = write!(shown, "\nnode {index} in a view of {members}:");
            for peer in self.nodes[index].peers().await {
                let _ = write!(shown, " {} {} {}", peer["name"], peer["state"], peer["transport"]);
            }
        }
        shown
    }

    async fn is_settled(&self, index: usize, members: usize) -> bool {
        let (node, there) = (&self.nodes[index], "alive");
        #[expect(clippy::cast_precision_loss, reason = "some nodes")]
        let members_seen = self.metric(index, "hivemind_mesh_members").await - members as f64;
        members_seen.abs() < 0.5
            && node.peers_that_are(there).await + node.peers_that_are("quarantined").await == members - 1
    }
}
