//! `server`: listeners, connection limits and shutdown.

use hivemind_config::ports::clash;
use hivemind_config::reader::Section;
use hivemind_config::value_kind::{COUNT, DURATION, IP, NUMBER, PATH, PORT_OR_OFF, SPAN, count_up_to};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

/// Listeners, connection limits and shutdown. With port 0 the kernel chooses one; none: the listener is off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerSection {
    pub(crate) grpc: Option<SocketAddr>,
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) grpc_uds: Option<PathBuf>,
    pub(crate) admin_uds: Option<PathBuf>,
    /// Unix socket where a new process requests the listening sockets; none: no handover.
    pub(crate) handover_socket: Option<PathBuf>,
    pub(crate) shutdown_grace: Duration,
    /// On each port; none: a quarter of its connections, and unlimited for clients on this machine.
    pub(crate) max_connections_per_client: Option<NonZeroUsize>,
    /// On each port, for local and known clients; at most a sixteenth of its connections.
    pub(crate) reserved_connections: usize,
    pub(crate) calls: Calls,
}

impl ServerSection {
    /// The listeners by their configuration keys.
    pub(super) fn listeners(&self) -> Vec<(&'static str, SocketAddr)> {
        let all = [("grpc_port", self.grpc), ("admin_port", self.admin), ("metrics_port", self.metrics)];
        all.into_iter().filter_map(|(key, address)| Some((key, address?))).collect()
    }

    /// Whether the rate limit service is enabled.
    pub(crate) fn has_calls(&self) -> bool {
        self.grpc.is_some() || self.grpc_uds.is_some()
    }
}

/// Connection limits and timeouts of the rate limit service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Calls {
    /// Worker threads for calls, and the same number for the gateway; none: one per core.
    pub(crate) workers: Option<NonZeroUsize>,
    /// Per listener.
    pub(crate) max_connections: NonZeroUsize,
    pub(crate) handshake_timeout: Duration,
    pub(crate) first_call_timeout: Duration,
    pub(crate) call_timeout: Duration,
    pub(crate) idle_timeout: Duration,
    pub(crate) max_connection_age: Duration,
}

/// More threads than any machine can use.
const MOST_WORKERS: usize = 1_024;
/// More connections than any port can have.
const MOST_CONNECTIONS: usize = 1_000_000;
/// Envoy opens one connection per worker.
const CONNECTIONS: NonZeroUsize = NonZeroUsize::new(1_024).unwrap();
/// Enough for the callers and probes of one machine.
const RESERVED_CONNECTIONS: u32 = 64;

/// `older_metrics_port` is the deprecated `observability.prometheus.port`.
pub(super) fn read(mut section: Section<'_, '_>, older_metrics_port: Option<u16>) -> ServerSection {
    let host = section.read("host", &IP).unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let mut address = |host_key: &str, port_key: &str, default: u16| {
        let host = section.read(host_key, &IP).unwrap_or(host);
        let port = section.read(port_key, &PORT_OR_OFF).unwrap_or(Some(default));
        port.map(|port| SocketAddr::new(host, port))
    };
    let grpc = address("grpc_host", "grpc_port", 8081);
    let admin = address("admin_host", "admin_port", 8080);
    let metrics = address("metrics_host", "metrics_port", older_metrics_port.unwrap_or(9090));
    let grpc_uds = section.read("grpc_uds", &PATH);
    let admin_uds = section.read("admin_uds", &PATH);
    let handover_socket = section.read("handover_socket", &PATH);
    let sockets = [("grpc_uds", &grpc_uds), ("admin_uds", &admin_uds), ("handover_socket", &handover_socket)];
    for (index, (key, path)) in sockets.iter().enumerate() {
        let same = sockets.iter().take(index).find(|(_, other)| path.is_some() && other == path);
        if let Some((other, _)) = same {
            let cause = format!("`server.{other}` and `server.{key}` are the same");
            section.refuse(key, cause, "give each its own socket");
        }
    }
    let shutdown_grace = section.read("shutdown_grace", &DURATION).unwrap_or(Duration::from_secs(10));
    let max_connections_per_client = section.read("max_connections_per_client", &COUNT);
    let reserved = section.read("reserved_connections", &NUMBER).unwrap_or(RESERVED_CONNECTIONS);
    let calls = calls(&mut section);
    let server = ServerSection {
        grpc,
        admin,
        metrics,
        grpc_uds,
        admin_uds,
        handover_socket,
        shutdown_grace,
        max_connections_per_client,
        reserved_connections: usize::try_from(reserved).unwrap_or(usize::MAX),
        calls,
    };
    check_ports(&mut section, &server);
    server
}

/// Two listeners cannot have one port.
fn check_ports(section: &mut Section<'_, '_>, server: &ServerSection) {
    let listeners = server.listeners();
    for (index, (key, address)) in listeners.iter().enumerate() {
        let earlier = listeners.iter().take(index).find(|(_, earlier)| clash(*earlier, *address));
        if let Some((other, _)) = earlier {
            // If one of the two is a default, the error points at the other one.
            let place = if section.has(key) { key } else { other };
            let cause = format!("`server.{other}` and `server.{key}` are both {}", address.port());
            section.refuse(place, cause, "give each its own port; 0 is any that is free");
        }
    }
}

fn calls(section: &mut Section<'_, '_>) -> Calls {
    let workers = section.read("workers", &count_up_to(MOST_WORKERS));
    if workers.is_some_and(|workers| workers.get() > MOST_WORKERS) {
        let cause = format!("`server.workers` is at most {MOST_WORKERS}");
        section.refuse("workers", cause, "leave it out for one per core");
    }
    let max_connections =
        section.read("max_connections", &count_up_to(MOST_CONNECTIONS)).unwrap_or(CONNECTIONS);
    if max_connections.get() > MOST_CONNECTIONS {
        let cause = format!("`server.max_connections` is at most {MOST_CONNECTIONS}");
        section.refuse(
            "max_connections",
            cause,
            "choose a smaller number; the limit of open files must be above it as well",
        );
    }
    let mut time = |key: &str, seconds: u64| section.read(key, &SPAN).unwrap_or(Duration::from_secs(seconds));
    Calls {
        workers,
        max_connections,
        handshake_timeout: time("handshake_timeout", 10),
        first_call_timeout: time("first_call_timeout", 10),
        call_timeout: time("call_timeout", 10),
        idle_timeout: time("idle_timeout", 60 * 60),
        max_connection_age: time("max_connection_age", 24 * 60 * 60),
    }
}
