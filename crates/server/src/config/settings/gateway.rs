//! `gateway`: settings of the reverse proxy.
//!
//! [`Front`] is static: sockets, TLS and client identification. [`Routing`] is reloaded with its file:
//! services, their upstreams and their limits.

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
use hivemind_config::reader::Section;
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

/// The static part: a change needs a restart and is a warning until then.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Front {
    /// `gateway.listen`. With port 0 the kernel chooses one.
    pub(crate) listen: SocketAddr,
    /// `gateway.tls`. Changed files reload without a restart; changed paths need one.
    pub(crate) tls: Option<Tls>,
    /// `gateway.max_connections`.
    pub(crate) max_connections: NonZeroUsize,
    /// `gateway.max_connections_per_client`; by default a quarter of all connections, and unlimited for local clients.
    pub(crate) max_connections_per_client: Option<NonZeroUsize>,
    /// `gateway.header_timeout`: for a TLS handshake, and for a request head after its first byte.
    pub(crate) header_timeout: Duration,
    /// `gateway.idle_timeout`: how long a connection may be silent between requests or within a body.
    pub(crate) idle_timeout: Duration,
    /// `gateway.max_header_bytes` and `gateway.max_headers`: requests with more get `431`.
    pub(crate) max_header_bytes: usize,
    pub(crate) max_headers: usize,
    pub(crate) clients: Clients,
    /// `gateway.headers`, `gateway.reset`, `gateway.body`: how responses describe the limits.
    pub(crate) headers: LimitHeaders,
    pub(crate) reset_is_delta: bool,
    pub(crate) text_body: bool,
    /// `gateway.access_log`: one line for each request; none if off.
    pub(crate) access_log: Option<LogTarget>,
    /// `gateway.refusal_log`: one line for fail2ban for each refused request.
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

/// Certificates. The first is the default: it serves clients without SNI or with an unknown server name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tls {
    pub(crate) certificates: Vec<CertificateFiles>,
    /// An additional certificate from ACME, after those from files.
    pub(crate) acme: Option<Acme>,
    /// `gateway.tls.redirect_from`: a listener that redirects plain HTTP to HTTPS.
    pub(crate) redirect_from: Option<SocketAddr>,
    /// `gateway.tls.min_version: "1.3"`; TLS 1.2 otherwise.
    pub(crate) only_tls13: bool,
}

/// The dynamic part: it is reloaded as a whole when its file changes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Routing {
    pub(crate) platform: Platform,
    pub(crate) services: Vec<ServiceSettings>,
}

impl Routing {
    /// The configuration keys of this part.
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
    /// Ten times the largest limit.
    #[default]
    Usual,
    Off,
    Limit(PartialLimit),
}

/// `websocket`, of the platform or of a service. A service inherits unset values from the platform, then the defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WebSocketSettings {
    /// Path patterns where WebSockets may be opened; empty: anywhere in the service.
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

/// One of `gateway.services`, with inherited values filled in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ServiceSettings {
    pub(crate) id: String,
    /// In lower case and without a port; `*.example.org` matches any subdomain. Empty: any host.
    pub(crate) hosts: Vec<String>,
    /// Starts with `/` and does not end with one, except for `/` itself. `/users` matches `/users` and all paths below it.
    pub(crate) path_prefix: String,
    pub(crate) upstreams: Vec<Upstream>,
    /// Use HTTP/2 with prior knowledge for cleartext upstreams. A TLS upstream chooses by ALPN.
    pub(crate) http2: bool,
    /// The CA for certificates of TLS upstreams; none: the system's CAs.
    pub(crate) upstream_ca: Option<PathBuf>,
    pub(crate) host_header: HostHeader,
    /// Whether the prefix is removed from the path sent to the upstream.
    pub(crate) strip_prefix: bool,
    pub(crate) forwarded: ForwardedHeaders,
    /// Larger requests get `413`; none: unlimited.
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
    /// A name or an address; IPv6 without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Upstream {
    /// Parses a URL; none if it is not just scheme, host and port.
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
    /// The host of the client's request.
    Keep,
    /// The upstream's own host and port.
    Upstream,
    Set(String),
}

/// Headers that carry the client's address to the upstream. Values sent by clients are always removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ForwardedHeaders {
    XForwarded,
    Forwarded,
    Both,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Timeouts {
    /// Timeout to connect to an upstream, TLS handshake included.
    pub(crate) connect: Duration,
    /// Timeout from sending the request to receiving the response head.
    pub(crate) response: Duration,
    /// Timeout between two parts of a body in either direction, and between WebSocket frames.
    pub(crate) idle: Duration,
    /// Timeout of the whole request; none: unlimited.
    pub(crate) total: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EndpointSettings {
    pub(crate) id: String,
    /// An axum path pattern of the whole request path.
    pub(crate) path: String,
    /// In upper case; empty: any.
    pub(crate) methods: Vec<String>,
    pub(crate) limit: PartialLimit,
}

/// Reads the section; none if it is absent. `server` has the other listeners, whose ports must differ.
pub(super) fn read(root: &mut Section<'_, '_>, server: &Server) -> Option<Gateway> {
    let is_there = root.has("gateway");
    let mut section = root.section("gateway");
    let front = front::read(&mut section, server);
    let platform = platform::read(section.section("platform"));
    let is_sound = limits::check_platform(&mut section, &platform);
    // With an invalid platform, each service would only repeat the platform's problems.
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
