//! `mesh`: settings of nodes that share limits without an external store.

use super::name::NodeName;
use hivemind_config::form::Form;
use hivemind_config::ports::clash;
use hivemind_config::reader::Section;
use hivemind_config::value_kind::{AMOUNT, BYTES, FLAG, HOST_PORT, LISTEN, MILLIS, NUMBER, PATH, ValueKind};
use hivemind_core::OnUnreachable;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Maximum number of peers of a node. With the node itself they form the largest view.
const MOST_PEERS: u64 = 127;
/// Maximum number of bootstrap peers. Other peers are discovered through them.
const MOST_BOOTSTRAP_PEERS: usize = 256;
/// Maximum length of a cluster name, which is part of each handshake.
const LONGEST_CLUSTER: usize = 128;
/// Below this bandwidth only the messages that maintain the mesh would get through.
const LEAST_BANDWIDTH: u64 = 10_000;
/// Longer timeouts are useless: callers have given up their requests by then.
const LONGEST_ASK: Duration = Duration::from_secs(10);
/// How to create the certificate files; part of each remedy that concerns them.
const TWO_LINES: &str = "make them by `hivemind certs ca --out ca` once and `hivemind certs node --ca ca --name NAME \
                         --out NAME` for each node, and add `mesh: {tls: {ca: NAME/ca.crt, cert: NAME/node.crt, key: \
                         NAME/node.key}}`";

/// Settings of a mesh node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MeshSection {
    /// None: derived at startup.
    pub node_id: Option<NodeName>,
    pub cluster_id: String,
    pub bind: SocketAddr,
    pub advertise: Advertise,
    /// Each as `host:port`.
    pub bootstrap_peers: Vec<String>,
    /// A DNS name whose addresses are peers, optionally with their port.
    pub dns: Option<String>,
    pub mdns: bool,
    pub sync_interval: Duration,
    pub max_peers: usize,
    pub ask_timeout: Duration,
    pub on_unreachable: OnUnreachable,
    /// Bytes per second.
    pub bandwidth_limit: u64,
    pub tls: MeshFiles,
}

/// The address advertised to peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Advertise {
    /// None: the source address that peers observe.
    pub ip: Option<IpAddr>,
    /// None: the listening port.
    pub port: Option<u16>,
}

/// Certificate, private key and trusted CA of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MeshFiles {
    pub ca: PathBuf,
    pub cert: PathBuf,
    pub key: PathBuf,
}

const NODE_ID: ValueKind<Option<NodeName>> = ValueKind::text(
    "auto, or a name that is valid in a certificate: letters, digits, `-`, `_` and `.`",
    "node-1",
    |text| if text == "auto" { Some(None) } else { NodeName::parse(text).ok().map(Some) },
)
.called("name or `auto`", "names");
const ADVERTISE: ValueKind<Advertise> =
    ValueKind::text("auto, an IP address, or one with a port", "192.0.2.1:7946", |text| {
        let is_somewhere = |ip: &IpAddr| !ip.is_unspecified();
        match (text, text.parse::<IpAddr>(), text.parse::<SocketAddr>()) {
            ("auto", ..) => Some(Advertise::default()),
            (_, Ok(ip), _) => Some(Advertise { ip: Some(ip), port: None }).filter(|_| is_somewhere(&ip)),
            (_, _, Ok(at)) if is_somewhere(&at.ip()) && at.port() != 0 => {
                Some(Advertise { ip: Some(at.ip()), port: Some(at.port()) })
            }
            _ => None,
        }
    })
    .written(Form::Pattern("^(auto|[0-9A-Fa-f.:]+|\\[[0-9A-Fa-f.:%]+\\]:[0-9]{1,5})$"))
    .called("ip, ip and port, or `auto`", "ips");
const CLUSTER: ValueKind<String> = ValueKind::text("a text of at most 128 bytes", "shop", |text| {
    let is_sound = !text.is_empty() && text.len() <= LONGEST_CLUSTER && !text.contains(char::is_control);
    is_sound.then(|| text.to_owned())
});
/// A name with an optional port.
const DNS: ValueKind<String> = ValueKind::text(
    "a DNS name, with a port or without",
    "hivemind-mesh.shop.svc.cluster.local:7946",
    |text| {
        let (host, port) = text.rsplit_once(':').map_or((text, None), |(host, port)| (host, Some(port)));
        let is_host = !host.is_empty() && host.len() <= 253 && !host.contains([':', '/', ' ', '\t']);
        let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port != 0));
        (is_host && is_port).then(|| text.to_owned())
    },
)
.written(Form::Pattern("^[^:/ \\t]+(:[0-9]{1,5})?$"))
.called("name, with a port or without", "names");

/// The listeners of `server` by their keys.
pub type Listeners<'a> = &'a [(&'static str, SocketAddr)];

/// Reads `mesh`; none unless `storage.kind` is `mesh`.
pub fn read(root: &mut Section<'_, '_>, is_used: bool, listeners: Listeners<'_>) -> Option<MeshSection> {
    let mut section = root.section("mesh");
    let why =
        "counters are not cached; how old a peer's count may be is `rate_limiting.staleness_threshold_ms`";
    section.superseded("cache_ttl_ms", &NUMBER, Err(why));
    let why = "membership is sent with counter updates, every `mesh.sync_interval_ms`";
    section.superseded("gossip_interval_ms", &MILLIS, Err(why));
    let millis = |section: &mut Section<'_, '_>, key: &str, default: u64| {
        section.read(key, &MILLIS).unwrap_or(Duration::from_millis(default))
    };
    let mesh = MeshSection {
        node_id: section.read("node_id", &NODE_ID).flatten(),
        cluster_id: section.read("cluster_id", &CLUSTER).unwrap_or_else(|| "default".to_owned()),
        bind: section.read("bind", &LISTEN).unwrap_or((Ipv4Addr::UNSPECIFIED, 7946).into()),
        advertise: section.read("advertise", &ADVERTISE).unwrap_or_default(),
        bootstrap_peers: section.list("bootstrap_peers", &HOST_PORT),
        dns: section.read("dns", &DNS),
        mdns: section.read("mdns", &FLAG).unwrap_or(false),
        sync_interval: millis(&mut section, "sync_interval_ms", 50),
        max_peers: max_peers(&mut section),
        ask_timeout: millis(&mut section, "ask_timeout_ms", 15),
        on_unreachable: section.choice("on_unreachable", &OnUnreachable::NAMED).unwrap_or_default(),
        bandwidth_limit: section.read("bandwidth_limit", &BYTES).unwrap_or(10_000_000),
        tls: files(section.section("tls")),
    };
    if !is_used {
        if root.has("mesh") {
            let cause = "`mesh` has no effect unless `storage.kind` is `mesh`".to_owned();
            root.warn("mesh", cause, "set `storage: {kind: mesh}`, or remove `mesh`");
        }
        return None;
    }
    check(root, &mesh, listeners);
    Some(mesh)
}

fn max_peers(section: &mut Section<'_, '_>) -> usize {
    let most = section
        .read("max_peers", &AMOUNT.written(Form::Whole(1, MOST_PEERS)))
        .map_or(100, std::num::NonZeroU32::get);
    if u64::from(most) > MOST_PEERS {
        let cause = format!("`mesh.max_peers` is at most {MOST_PEERS}");
        section.refuse("max_peers", cause, "leave it out for the default of 100");
    }
    usize::try_from(most).unwrap_or(usize::MAX)
}

fn files(mut section: Section<'_, '_>) -> MeshFiles {
    let mut file = |key: &str| section.read(key, &PATH).unwrap_or_default();
    MeshFiles { ca: file("ca"), cert: file("cert"), key: file("key") }
}

/// Checks the settings that depend on each other, if the mesh is used.
fn check(root: &mut Section<'_, '_>, mesh: &MeshSection, listeners: Listeners<'_>) {
    let MeshFiles { ca, cert, key } = &mesh.tls;
    let named = [("ca", ca), ("cert", cert), ("key", key)];
    let missing: Vec<&str> =
        named.iter().filter(|(_, path)| path.as_os_str().is_empty()).map(|(name, _)| *name).collect();
    if !missing.is_empty() {
        let cause = format!(
            "a mesh needs certificates, which authenticate its nodes; missing: `mesh.tls.{}`",
            missing.join("`, `mesh.tls.")
        );
        root.section("storage").refuse("kind", cause, TWO_LINES);
    }
    let taken = listeners.iter().find(|(_, address)| clash(*address, mesh.bind));
    let mut section = root.section("mesh");
    if let Some((port, _)) = taken {
        let cause = format!("`mesh.bind` and `server.{port}` both use port {}", mesh.bind.port());
        section.refuse("bind", cause, "give each its own port");
    }
    if mesh.bootstrap_peers.len() > MOST_BOOTSTRAP_PEERS {
        let cause = format!("`mesh.bootstrap_peers` has more than {MOST_BOOTSTRAP_PEERS} peers");
        section.refuse("bootstrap_peers", cause, "a few are enough: they know the others");
    }
    if mesh.bandwidth_limit < LEAST_BANDWIDTH {
        let cause = format!("`mesh.bandwidth_limit` is at least {LEAST_BANDWIDTH} bytes per second");
        section.refuse("bandwidth_limit", cause, "leave it out for the default of 10MB");
    }
    if mesh.ask_timeout > LONGEST_ASK {
        let cause = format!("`mesh.ask_timeout_ms` is at most {}", LONGEST_ASK.as_millis());
        section.refuse("ask_timeout_ms", cause, "leave it out for the default of 15");
    }
}
