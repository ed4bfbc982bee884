//! The limits of all services, as they are configured: a value that is built once,
//! resolved when it is put in force, and swapped whole.

use crate::partial_limit::PartialLimit;
use std::time::Duration;

/// The limits of everything behind one [`RateLimiter`](crate::RateLimiter).
///
/// Without a word, each client has 100 requests per 60 s and service, and a burst of 100.
///
/// ```
/// use hivemind_tower::{Limits, PartialLimit, RateLimiter, ServiceLimits};
///
/// let login = PartialLimit::new().requests(5).burst(5);
/// let limits = Limits::new()
///     .max_requests(1_000)
///     .service(ServiceLimits::new("shop").limit(PartialLimit::per_second(20)).endpoint("POST /login", login));
/// let limiter = RateLimiter::new(limits)?;
/// # let _ = limiter;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Limits {
    pub(crate) enabled: bool,
    pub(crate) default: PartialLimit,
    pub(crate) ws_connection: PartialLimit,
    pub(crate) ws_message: PartialLimit,
    pub(crate) max_requests: Option<u32>,
    pub(crate) max_burst: Option<u32>,
    pub(crate) global_scope: bool,
    pub(crate) ip_guard: IpGuard,
    pub(crate) services: Vec<ServiceLimits>,
}

/// What an address may spend under all the names that it gives itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IpGuard {
    Off,
    /// So many times the most generous limit of a single client.
    Times(u32),
    Limit(PartialLimit),
}

impl IpGuard {
    pub(crate) const USUAL_TIMES: u32 = 10;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            enabled: true,
            default: PartialLimit::new(),
            ws_connection: PartialLimit::new(),
            ws_message: PartialLimit::new(),
            max_requests: None,
            max_burst: None,
            global_scope: false,
            ip_guard: IpGuard::Times(IpGuard::USUAL_TIMES),
            services: Vec::new(),
        }
    }
}

impl Limits {
    pub(crate) const HTTP: PartialLimit =
        PartialLimit::new().requests(100).window(Duration::from_secs(60)).burst(100);
    pub(crate) const WS_CONNECTION: PartialLimit =
        PartialLimit::new().requests(10).window(Duration::from_secs(60)).burst(5);
    pub(crate) const WS_MESSAGE: PartialLimit = PartialLimit::per_second(100).burst(50);

    /// The platform's defaults for every service.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same limit for every client, service and endpoint that says nothing else.
    pub fn platform(mut self, limit: PartialLimit) -> Self {
        self.default = limit;
        self
    }

    /// The platform's limit on WebSocket connections of one client to one service; 10 per 60 s and
    /// a burst of 5 where it says nothing.
    pub fn ws_connection(mut self, limit: PartialLimit) -> Self {
        self.ws_connection = limit;
        self
    }

    /// The platform's limit on messages of one connection; 100 per second and a burst of 50 where
    /// it says nothing.
    pub fn ws_message(mut self, limit: PartialLimit) -> Self {
        self.ws_message = limit;
        self
    }

    /// The most requests per window that any level can ask for.
    pub fn max_requests(mut self, requests: u32) -> Self {
        self.max_requests = Some(requests);
        self
    }

    /// The largest burst that any level can ask for.
    pub fn max_burst(mut self, burst: u32) -> Self {
        self.max_burst = Some(burst);
        self
    }

    /// `platform.scope: global`: one bucket for each client over all services, by the platform's limit.
    pub fn global_scope(mut self) -> Self {
        self.global_scope = true;
        self
    }

    /// What one address may spend under all the names that it gives itself. Without a word, ten
    /// times the most generous limit of a single client.
    pub fn ip_guard(mut self, limit: PartialLimit) -> Self {
        self.ip_guard = IpGuard::Limit(limit);
        self
    }

    /// No guard: whoever makes up a token for each request is not limited. Right only where
    /// something in front of this layer has verified the tokens.
    pub fn without_ip_guard(mut self) -> Self {
        self.ip_guard = IpGuard::Off;
        self
    }

    /// Adds a service, or replaces the one of this name.
    pub fn service(mut self, service: ServiceLimits) -> Self {
        self.services.retain(|other| other.name != service.name);
        self.services.push(service);
        self
    }

    /// `enabled: false` passes everything and counts nothing.
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = enabled;
        self
    }
}

/// The limits of one service, where they differ from the platform's.
#[derive(Clone, Debug)]
#[must_use]
pub struct ServiceLimits {
    pub(crate) name: String,
    pub(crate) limit: PartialLimit,
    pub(crate) endpoints: Vec<(String, PartialLimit)>,
    pub(crate) ws_connection: PartialLimit,
    pub(crate) ws_message: PartialLimit,
    pub(crate) websockets: Vec<String>,
    pub(crate) max_open: Option<u32>,
    pub(crate) close_4429: bool,
}

impl ServiceLimits {
    /// A service of this name, limited as the platform says.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            limit: PartialLimit::new(),
            endpoints: Vec::new(),
            ws_connection: PartialLimit::new(),
            ws_message: PartialLimit::new(),
            websockets: Vec::new(),
            max_open: None,
            close_4429: false,
        }
    }

    /// What a client may ask of it, where no endpoint says more.
    pub fn limit(mut self, limit: PartialLimit) -> Self {
        self.limit = limit;
        self
    }

    /// What a client may ask of one endpoint: a path pattern as axum's, with or without a method
    /// before it: `/users/{id}`, `POST /login`, `GET /files/{*path}`.
    pub fn endpoint(mut self, pattern: impl Into<String>, limit: PartialLimit) -> Self {
        self.endpoints.push((pattern.into(), limit));
        self
    }

    /// A path where a WebSocket is opened: a pattern like an endpoint's, without a method. Only there
    /// is an upgrade charged as a connection. Anywhere else its header is just what a client says, and the
    /// request is charged like any other.
    pub fn websocket(mut self, path: impl Into<String>) -> Self {
        self.websockets.push(path.into());
        self
    }

    /// How often a client may open a WebSocket, at whichever of its [paths](Self::websocket).
    pub fn ws_connection(mut self, limit: PartialLimit) -> Self {
        self.ws_connection = limit;
        self
    }

    /// How many messages may come over one WebSocket.
    pub fn ws_message(mut self, limit: PartialLimit) -> Self {
        self.ws_message = limit;
        self
    }

    /// How many WebSocket connections a client may have open at once, and an address ten times as many
    /// under whatever names. Counted for handlers that [open](crate::websocket::ConnectionGuard::open)
    /// their guard. An attempt beyond it is charged to `ws_connection` like any other.
    pub fn max_open_connections(mut self, connections: u32) -> Self {
        self.max_open = Some(connections);
        self
    }

    /// `on_limit: close_4429`: a WebSocket over its limit reaches the handler, whose guard then says
    /// to close it with 4429, since a browser's script cannot see a 429. Its handler is then asked for each
    /// attempt; only what the guard of an address refuses is still answered with 429.
    pub fn close_on_limit(mut self) -> Self {
        self.close_4429 = true;
        self
    }
}
