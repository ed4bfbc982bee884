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

use hivemind_config::reader::Section;
pub use hivemind_tls::CertificateFiles;
use hivemind_tls::acme::settings::Acme;
use hivemind_tower::PartialLimit;
use std::fmt;
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

/// The gateway.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewaySettings {
    pub front: Front,
    pub routing: Routing,
}

/// The static part: a change needs a restart and is a warning until then.
#[derive(Clone, Debug, PartialEq)]
pub struct Front {
    /// `gateway.listen`. With port 0 the kernel chooses one.
    pub listen: SocketAddr,
    /// `gateway.tls`. Changed files reload without a restart; changed paths need one.
    pub tls: Option<ListenerTls>,
    /// `gateway.max_connections`.
    pub max_connections: NonZeroUsize,
    /// `gateway.max_connections_per_client`; by default a quarter of all connections, and unlimited for local clients.
    pub max_connections_per_client: Option<NonZeroUsize>,
    /// `gateway.header_timeout`: for a TLS handshake, and for a request head after its first byte.
    pub header_timeout: Duration,
    /// `gateway.idle_timeout`: how long a connection may be silent between requests or within a body.
    pub idle_timeout: Duration,
    /// `gateway.max_header_bytes` and `gateway.max_headers`: requests with more get `431`.
    pub max_header_bytes: usize,
    pub max_headers: usize,
    pub clients: Clients,
    /// `gateway.override_headers: keep`: headers that override the method, target or address of a request pass from
    /// untrusted peers too.
    pub keeps_override_headers: bool,
    /// `gateway.headers`, `gateway.reset`, `gateway.body`: how responses describe the limits.
    pub headers: LimitHeaders,
    pub reset_is_delta: bool,
    pub text_body: bool,
    /// `gateway.access_log`: one line for each request; none if off.
    pub access_log: Option<LogTarget>,
    /// `gateway.refusal_log`: one line for fail2ban for each refused request.
    pub refusal_log: Option<LogTarget>,
}

/// `gateway.client_ip`, `gateway.identity`, `gateway.session_cookie`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clients {
    pub trusted_proxies: Vec<String>,
    pub trusted_hops: Option<u32>,
    pub legacy_leftmost: bool,
    /// The header that a trusted proxy forwards the address in.
    pub header: Forwarding,
    pub ipv6_prefix: u8,
    pub identity: Vec<IdentityStep>,
    /// The cookie of [`IdentityStep::Session`].
    pub session_cookie: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityStep {
    Session,
    Bearer,
    ApiKey,
    Ip,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    XForwardedFor,
    Forwarded,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitHeaders {
    Ietf,
    X,
    Both,
    Off,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    Stdout,
    File(PathBuf),
}

/// Certificates. The first is the default: it serves clients without SNI or with an unknown server name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerTls {
    pub certificates: Vec<CertificateFiles>,
    /// An additional certificate from ACME, after those from files.
    pub acme: Option<Acme>,
    /// `gateway.tls.redirect_from`: a listener that redirects plain HTTP to HTTPS.
    pub redirect_from: Option<SocketAddr>,
    /// `gateway.tls.min_version: "1.3"`; TLS 1.2 otherwise.
    pub only_tls13: bool,
}

/// The dynamic part: it is reloaded as a whole when its file changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Routing {
    pub platform: Platform,
    pub services: Vec<ServiceSettings>,
}

impl Routing {
    /// The configuration keys of this part.
    pub const KEYS: [&'static str; 5] =
        ["gateway.platform", "gateway.services", "gateway.max_body", "gateway.forwarded", "gateway.timeouts"];
}

/// `gateway.platform`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Platform {
    pub enabled: bool,
    pub limit: PartialLimit,
    pub max_requests: Option<u32>,
    pub max_burst: Option<u32>,
    /// `scope: global`.
    pub is_global: bool,
    pub ip_guard: IpGuard,
    pub websocket: WebSocketSettings,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum IpGuard {
    /// Ten times the largest limit.
    #[default]
    Usual,
    Off,
    Limit(PartialLimit),
}

/// `websocket`, of the platform or of a service. A service inherits unset values from the platform, then the defaults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WebSocketSettings {
    /// Path patterns where WebSockets may be opened; empty: anywhere in the service.
    pub paths: Vec<String>,
    pub connections: WebSocketLimit,
    pub messages: WebSocketLimit,
    pub max_open: Option<NonZeroU32>,
    /// Pings and pongs of a client in a second, where messages are counted.
    pub pings_per_second: Option<NonZeroU32>,
    pub on_limit: Option<OnLimit>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WebSocketLimit {
    pub enabled: Option<bool>,
    pub limit: PartialLimit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLimit {
    Http429,
    Close4429,
}

/// One of `gateway.services`, with inherited values filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct ServiceSettings {
    pub id: String,
    /// In lower case and without a port; `*.example.org` matches any subdomain. Empty: any host.
    pub hosts: Vec<String>,
    /// Starts with `/` and does not end with one, except for `/` itself. `/users` matches `/users` and all paths below it.
    pub path_prefix: String,
    pub upstreams: Vec<UpstreamUrl>,
    /// Use HTTP/2 with prior knowledge for cleartext upstreams. A TLS upstream chooses by ALPN.
    pub http2: bool,
    /// The CA for certificates of TLS upstreams; none: the system's CAs.
    pub upstream_ca: Option<PathBuf>,
    pub host_header: HostHeader,
    /// Whether the prefix is removed from the path sent to the upstream.
    pub strip_prefix: bool,
    pub forwarded: ForwardedHeaders,
    /// Larger requests get `413`; none: unlimited.
    pub max_body: Option<u64>,
    pub timeouts: Timeouts,
    pub limit: PartialLimit,
    pub endpoints: Vec<EndpointSettings>,
    pub websocket: WebSocketSettings,
}

/// `http://host:port` or `https://host:port`, without a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UpstreamUrl {
    pub is_tls: bool,
    /// A name or an address; IPv6 without brackets.
    pub host: String,
    pub port: u16,
}

impl UpstreamUrl {
    /// Parses a URL; none if it is not just scheme, host and port.
    pub fn parse(text: &str) -> Option<Self> {
        kinds::upstream(text)
    }
}

impl fmt::Display for UpstreamUrl {
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
pub enum HostHeader {
    /// The host of the client's request.
    Keep,
    /// The upstream's own host and port.
    Upstream,
    Set(String),
}

/// Headers that carry the client's address to the upstream. Values sent by clients are always removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForwardedHeaders {
    XForwarded,
    Forwarded,
    Both,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Timeout to connect to an upstream, TLS handshake included.
    pub connect: Duration,
    /// Timeout from sending the request to receiving the response head.
    pub response: Duration,
    /// Timeout between two parts of a body in either direction, and between WebSocket frames.
    pub idle: Duration,
    /// Timeout of the whole request; none: unlimited.
    pub total: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct EndpointSettings {
    pub id: String,
    /// An axum path pattern of the whole request path.
    pub path: String,
    /// In upper case; empty: any.
    pub methods: Vec<String>,
    pub limit: PartialLimit,
}

/// The listeners of `server` by their keys.
pub type Listeners<'a> = &'a [(&'static str, SocketAddr)];

/// Reads the section; none if it is absent. `others` are the other listeners, whose ports must differ.
pub fn read(root: &mut Section<'_, '_>, others: Listeners<'_>) -> Option<GatewaySettings> {
    let is_there = root.has("gateway");
    let mut section = root.section("gateway");
    let front = front::read(&mut section, others);
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
    is_there.then_some(GatewaySettings { front, routing: Routing { platform, services } })
}
