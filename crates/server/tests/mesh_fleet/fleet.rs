//! A fleet: nodes that share their limits, on loopback or each in a network namespace.

use crate::authority::Authority;
use crate::delay::DelayedPath;
use crate::network::Network;
use crate::node::Node;
use crate::window_time::{SECOND, begin, now, until, until_true, window};
use hivemind_testkit::DEADLINE;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Ports below the ephemeral range.
const FIRST_PORT: u32 = 20_000;
const PORTS: u32 = 12_000;
/// Shifts the clock of a node by this many milliseconds.
const CLOCK_OFFSET: &str = "HIVEMIND_TEST_CLOCK_OFFSET_MS";

/// The configuration of a fleet.
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
    /// With `count` nodes on loopback and these rules of the domain `d`.
    pub(crate) fn new(count: usize, descriptors: &str) -> Self {
        let mesh = json!({"cluster_id": "fleet"});
        let rules = format!("domain: d\ndescriptors:\n{descriptors}");
        Self { count, rules, mesh, in_namespaces: false, way: None, clocks: Vec::new(), name: None }
    }

    /// With rules of another domain.
    pub(crate) fn for_domain(self, domain: &str) -> Self {
        let rules = self.rules.replacen("domain: d\n", &format!("domain: {domain}\n"), 1);
        Self { rules, ..self }
    }

    /// With a network namespace for each node.
    pub(crate) fn in_namespaces(self) -> Self {
        Self { in_namespaces: true, ..self }
    }

    /// With nodes that listen at every address, advertise none, and find each other by a DNS name; for nodes in
    /// namespaces. [`Fleet::name`] sets the addresses of the name.
    pub(crate) fn with_dns_name(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    /// With this delay in each direction between any two nodes.
    pub(crate) fn with_delay(self, way: Duration) -> Self {
        Self { way: Some(way), ..self }
    }

    /// With the clock of a node ahead by `ahead_ms` milliseconds.
    pub(crate) fn clock(mut self, index: usize, ahead_ms: i64) -> Self {
        self.clocks.push((index, ahead_ms));
        self
    }

    /// With a longer timeout for owners than the default, because many tests share the machine: for tests of
    /// exact counts, in which no decision may come from a timeout.
    pub(crate) fn with_long_timeouts(self) -> Self {
        self.with("ask_timeout_ms", json!(400))
    }

    /// With a setting of the `mesh` section.
    pub(crate) fn with(mut self, key: &str, value: Value) -> Self {
        self.mesh[key] = value;
        self
    }

    /// Starts all nodes and waits until all are in one view. None if namespaces are not available.
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
            mesh["tls"] = authority.write_node_files(&own, &name);
            write_settings(&own, &mesh, &self.rules);
            let mut node = Node::new(&name, own, place.called_at);
            if let Some((_, ahead_ms)) = self.clocks.iter().find(|(whose, _)| *whose == index) {
                node.variable(CLOCK_OFFSET, &ahead_ms.to_string());
            }
            if self.name.is_some() {
                node.hosts = Some(folder.path().join("hosts"));
            }
            if let Some(way) = self.way {
                ways.push(DelayedPath::open(place.called_at, place.binds, way).await);
            }
            nodes.push(node);
        }
        Some(Fleet { nodes, network, authority, folder, _ways: ways })
    }

    /// On loopback every node has its own address, so that one port is enough.
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

/// An address of this test, out of the sixteen million of loopback.
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

/// Writes a node's configuration and rules into its folder.
pub(crate) fn write_settings(folder: &Path, mesh: &Value, rules: &str) {
    let settings = json!({
        "server": {"grpc_port": 0, "admin_port": 0, "metrics_port": 0,
            "grpc_uds": folder.join("grpc.sock"), "admin_uds": folder.join("admin.sock")},
        "rate_limiting": {"config_path": folder.join("rules.yaml")},
        "storage": {"kind": "mesh"},
        "mesh": mesh,
    });
    // JSON is valid YAML.
    std::fs::write(folder.join("config.yaml"), settings.to_string()).unwrap();
    std::fs::write(folder.join("rules.yaml"), rules).unwrap();
}

/// Configures a node with the memory store, for comparison.
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
    _ways: Vec<DelayedPath>,
}

impl Fleet {
    /// Starts a node that does not run.
    pub(crate) async fn start(&mut self, index: usize) {
        let place = self.network.as_ref().map(|network| (network, index));
        self.nodes[index].start(place).await;
    }

    /// Sets the nodes of a DNS name, in the file that nodes in namespaces have as `/etc/hosts`. The file is
    /// rewritten in place: the nodes have its content mounted, not its path.
    pub(crate) fn name(&self, name: &str, nodes: &[usize]) {
        let lines = nodes.iter().map(|&index| format!("{} {name}\n", Network::address(index)));
        std::fs::write(self.folder.path().join("hosts"), lines.collect::<String>()).unwrap();
    }

    pub(crate) fn network(&self) -> &Network {
        self.network.as_ref().expect("a fleet in namespaces")
    }

    /// A metric of a node, 0 if it is missing.
    pub(crate) async fn metric(&self, index: usize, series: &str) -> f64 {
        let place = self.network.as_ref().map(|network| (network, index));
        let page = self.nodes[index].metrics(place).await;
        let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map_or(0.0, |number| number.parse().unwrap())
    }

    /// The sum of a metric over all running nodes.
    pub(crate) async fn sum(&self, series: &str) -> f64 {
        let mut sum = 0.0;
        for index in 0..self.nodes.len() {
            if self.nodes[index].runs() {
                sum += self.metric(index, series).await;
            }
        }
        sum
    }

    /// Waits until all running nodes list each other and decide in one view: a view is agreed on about two
    /// seconds before it is effective.
    pub(crate) async fn settled(&self) {
        self.agreed().await;
        let next = begin(window(now(), SECOND) + 4, SECOND);
        until(next).await;
    }

    async fn agreed(&self) {
        let running: Vec<usize> = (0..self.nodes.len()).filter(|&index| self.nodes[index].runs()).collect();
        for &index in &running {
            let agreed = until_true(async || self.is_settled(index, running.len()).await);
            let is_agreed = tokio::time::timeout(DEADLINE, agreed).await.is_ok();
            assert!(is_agreed, "waited {DEADLINE:?} for peers of node {index}: {}", self.summary().await);
        }
    }

    /// How the running nodes list each other.
    async fn summary(&self) -> String {
        let mut summary = String::new();
        for index in (0..self.nodes.len()).filter(|&index| self.nodes[index].runs()) {
            let members = self.metric(index, "hivemind_mesh_members").await;
            let _ = write!(summary, "\nnode {index} in a view of {members}:");
            for peer in self.nodes[index].peers().await {
                let _ = write!(summary, " {} {} {}", peer["name"], peer["state"], peer["transport"]);
            }
        }
        summary
    }

    async fn is_settled(&self, index: usize, members: usize) -> bool {
        let (node, there) = (&self.nodes[index], "alive");
        #[expect(clippy::cast_precision_loss, reason = "some nodes")]
        let difference = self.metric(index, "hivemind_mesh_members").await - members as f64;
        difference.abs() < 0.5
            && node.count_peers(there).await + node.count_peers("quarantined").await == members - 1
    }
}
