//! `gateway`: the reverse proxy, as it is configured.
//!
//! What is [`Front`] is there from start to end: sockets, TLS, and how clients are told apart. What is
//! [`Routing`] follows its file: services, their upstreams and their limits.

mod clients;
mod front;
mod kinds;
mod limit;
mod limits;
mod platform;
mod service;
mod tls;
mod websocket;

use super::server::Server;
use hivemind_config::reading::Section;
pub(crate) use hivemind_tls::CertificateFiles;
use hivemind_tls::acme::settings::Acme;
use hivemind_tower::PartialLimit;
use std::fmt;
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

/// The gateway.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gateway {
    pub(crate) front: Front,
    pub(crate) routing: Routing,
}

/// The static part: a change needs a restart, and is warned of until then.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Front {
    /// `gateway.listen`. A port of 0 is one that the kernel chooses.
    pub(crate) listen: SocketAddr,
    /// `gateway.tls`. The files' contents are followed without a restart, their paths are not.
    pub(crate) tls: Option<Tls>,
    /// `gateway.max_connections`.
    pub(crate) max_connections: NonZeroUsize,
    /// `gateway.max_connections_per_client`; none: a quarter of all, and none for those on this machine.
    pub(crate) max_connections_per_client: Option<NonZeroUsize>,
    /// `gateway.header_timeout`: for a TLS handshake, and for the head of a request once it began.
    pub(crate) header_timeout: Duration,
    /// `gateway.idle_timeout`: how long a connection may be silent between requests or within a body.
    pub(crate) idle_timeout: Duration,
    /// `gateway.max_header_bytes` and `gateway.max_headers`: more is answered with 431.
    pub(crate) max_header_bytes: usize,
    pub(crate) max_headers: usize,
    pub(crate) clients: Clients,
    /// `gateway.headers`, `gateway.reset`, `gateway.body`: what clients are told of their limits.
    pub(crate) headers: LimitHeaders,
    pub(crate) reset_is_delta: bool,
    pub(crate) text_body: bool,
    /// `gateway.access_log`: one line for each request; none: not written.
    pub(crate) access_log: Option<LogTarget>,
    /// `gateway.refusal_log`: the line that fail2ban reads, for each refused request.
    pub(crate) refusal_log: Option<LogTarget>,
}

/// `gateway.client_ip`, `gateway.identity`, `gateway.session_cookie`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Clients {
    pub(crate) trusted_proxies: Vec<String>,
    pub(crate) trusted_hops: Option<u32>,
    pub(crate) legacy_leftmost: bool,
    /// The header that a trusted proxy forwards the address in.
    pub(crate) header: Forwarding,
    pub(crate) ipv6_prefix: u8,
    pub(crate) identity: Vec<IdentityStep>,
    /// The cookie of [`IdentityStep::Session`].
    pub(crate) session_cookie: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdentityStep {
    Session,
    Bearer,
    ApiKey,
    Ip,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forwarding {
    XForwardedFor,
    Forwarded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitHeaders {
    Ietf,
    X,
    Both,
    Off,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LogTarget {
    Stdout,
    File(PathBuf),
}

/// Certificates, the first for whoever names no server or one that none of them is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tls {
    pub(crate) certificates: Vec<CertificateFiles>,
    /// One more, after those of files.
    pub(crate) acme: Option<Acme>,
    /// `gateway.tls.redirect_from`: plain HTTP here is sent to HTTPS.
    pub(crate) redirect_from: Option<SocketAddr>,
    /// `gateway.tls.min_version: "1.3"`; TLS 1.2 otherwise.
    pub(crate) only_tls13: bool,
}

/// The dynamic part: it follows its file, whole.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Routing {
    pub(crate) platform: Platform,
    pub(crate) services: Vec<ServiceSettings>,
}

impl Routing {
    /// The keys that it is made of.
    pub(crate) const KEYS: [&'static str; 5] =
        ["gateway.platform", "gateway.services", "gateway.max_body", "gateway.forwarded", "gateway.timeouts"];
}

/// `gateway.platform`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Platform {
    pub(crate) enabled: bool,
    pub(crate) limit: PartialLimit,
    pub(crate) max_requests: Option<u32>,
    pub(crate) max_burst: Option<u32>,
    /// `scope: global`.
    pub(crate) is_global: bool,
    pub(crate) ip_guard: IpGuard,
    pub(crate) websocket: WebSocketSettings,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum IpGuard {
    /// Ten times the most generous limit.
    #[default]
    Usual,
    Off,
    Limit(PartialLimit),
}

/// `websocket`, of the platform or of a service. What is left open is the platform's, then the default.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WebSocketSettings {
    /// Where WebSockets are opened, as patterns; none given: anywhere in the service.
    pub(crate) paths: Vec<String>,
    pub(crate) connections: WebSocketLimit,
    pub(crate) messages: WebSocketLimit,
    pub(crate) max_open: Option<NonZeroU32>,
    pub(crate) on_limit: Option<OnLimit>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct WebSocketLimit {
    pub(crate) enabled: Option<bool>,
    pub(crate) limit: PartialLimit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnLimit {
    Http429,
    Close4429,
}

/// One of `gateway.services`, with everything that the gateway says for all of them filled in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServiceSettings {
    pub(crate) id: String,
    /// In lower case and without a port; `*.example.org` is any name below. None: any host.
    pub(crate) hosts: Vec<String>,
    /// Begins with `/`, and ends without one unless it is all. `/users` is `/users` and whatever is below it.
    pub(crate) path_prefix: String,
    pub(crate) upstreams: Vec<Upstream>,
    /// Speak HTTP/2 to a cleartext upstream, by prior knowledge. A TLS upstream chooses by ALPN.
    pub(crate) http2: bool,
    /// The CA that a TLS upstream's certificate is checked with; none: the system's.
    pub(crate) upstream_ca: Option<PathBuf>,
    pub(crate) host_header: HostHeader,
    /// Whether the prefix is taken off before the upstream sees the path.
    pub(crate) strip_prefix: bool,
    pub(crate) forwarded: ForwardedHeaders,
    /// More is answered with 413; none: no bound.
    pub(crate) max_body: Option<u64>,
    pub(crate) timeouts: Timeouts,
    pub(crate) limit: PartialLimit,
    pub(crate) endpoints: Vec<EndpointSettings>,
    pub(crate) websocket: WebSocketSettings,
}

/// `http://host:port` or `https://host:port`, without a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Upstream {
    pub(crate) is_tls: bool,
    /// A name or an address; one of IPv6 without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Upstream {
    /// Of a URL; none if it is not one of a server alone.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        kinds::upstream(text)
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        if self.host.contains(':') {
            write!(f, "{scheme}://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{scheme}://{}:{}", self.host, self.port)
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HostHeader {
    /// What the client asked for.
    Keep,
    /// The upstream's own host and port.
    Upstream,
    Set(String),
}

/// Which headers tell the upstream of the client. Those that a client sent itself never pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForwardedHeaders {
    XForwarded,
    Forwarded,
    Both,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeouts {
    /// Until an upstream is connected to, TLS included.
    pub(crate) connect: Duration,
    /// Until the head of its answer is there, from when the request is sent.
    pub(crate) response: Duration,
    /// Between two parts of a body, either way, and of a WebSocket.
    pub(crate) idle: Duration,
    /// For all of a request; none: as long as it goes on.
    pub(crate) total: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EndpointSettings {
    pub(crate) id: String,
    /// A pattern as axum's, of the whole path that the client asked for.
    pub(crate) path: String,
    /// In upper case; none: any.
    pub(crate) methods: Vec<String>,
    pub(crate) limit: PartialLimit,
}

/// The gateway of a file; none if the section is not there. `server` is where else it listens.
pub(super) fn read(root: &mut Section<'_, '_>, server: &Server) -> Option<Gateway> {
    let is_there = root.has("gateway");
    let mut section = root.section("gateway");
    let front = front::read(&mut section, server);
    let platform = platform::read(section.section("platform"));
    let is_sound = limits::check_platform(&mut section, &platform);
    // Each of them would only repeat what is wrong with all.
    let services = service::read_all(&mut section, is_sound.then_some(&platform));
    let is_list_of_none = section.is_empty_list("services");
    if is_there && (!section.has("services") || is_list_of_none) {
        let remedy = "name one, as in `services: [{id: app, upstream: \"http://127.0.0.1:3000\"}]`";
        root.refuse(
            "gateway",
            "the gateway has no `services`, so it has nowhere to send requests".into(),
            remedy,
        );
    }
    is_there.then_some(Gateway { front, routing: Routing { platform, services } })
}
