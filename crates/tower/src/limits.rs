//! Configured limits of all services. A value that is built once, validated, and swapped whole by a reload.

use crate::partial_limit::PartialLimit;
use crate::service_limits::{ServiceLimits, WebSocketCounting};
use std::time::Duration;

/// The limits of all services behind one [`RateLimiter`](crate::RateLimiter).
///
/// The default for each client is 100 requests per 60 s and service, with a burst of 100.
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
    pub(crate) counts: WebSocketCounting,
    pub(crate) max_requests: Option<u32>,
    pub(crate) max_burst: Option<u32>,
    pub(crate) global_scope: bool,
    pub(crate) ip_guard: IpGuardLimit,
    pub(crate) services: Vec<ServiceLimits>,
}

/// The limit of an address, summed over all client names it uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IpGuardLimit {
    Off,
    /// This many times the widest limit of a single client.
    Times(u32),
    Limit(PartialLimit),
}

impl IpGuardLimit {
    pub(crate) const DEFAULT_TIMES: u32 = 10;
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            enabled: true,
            default: PartialLimit::new(),
            ws_connection: PartialLimit::new(),
            ws_message: PartialLimit::new(),
            counts: WebSocketCounting::default(),
            max_requests: None,
            max_burst: None,
            global_scope: false,
            ip_guard: IpGuardLimit::Times(IpGuardLimit::DEFAULT_TIMES),
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

    /// The limit of every client, service and endpoint without a more specific one.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, PartialLimit};
    /// assert!(Limits::new().platform(PartialLimit::per_second(10).burst(20)).check().is_ok());
    /// ```
    pub fn platform(mut self, limit: PartialLimit) -> Self {
        self.default = limit;
        self
    }

    /// The platform's limit on WebSocket connections of one client to one service. Fields left out default to 10
    /// connections per 60 s with a burst of 5.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, PartialLimit};
    /// assert!(Limits::new().ws_connection(PartialLimit::new().requests(20).burst(10)).check().is_ok());
    /// ```
    pub fn ws_connection(mut self, limit: PartialLimit) -> Self {
        self.ws_connection = limit;
        self
    }

    /// The platform's limit on messages of one connection. Fields left out default to 100 messages per second
    /// with a burst of 50.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, PartialLimit};
    /// // A message has already arrived, so it cannot be delayed.
    /// assert!(Limits::new().ws_message(PartialLimit::per_second(10).delay(5)).check().is_err());
    /// ```
    pub fn ws_message(mut self, limit: PartialLimit) -> Self {
        self.ws_message = limit;
        self
    }

    /// `connections.enabled`: whether WebSocket connections have a limit of their own. If not, an upgrade is
    /// charged like any other request. A service can override it.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, ServiceLimits};
    /// let chat = ServiceLimits::new("chat").websocket("/ws").count_ws_connections(true);
    /// assert!(Limits::new().count_ws_connections(false).service(chat).check().is_ok());
    /// ```
    pub fn count_ws_connections(mut self, count: bool) -> Self {
        self.counts.connections = Some(count);
        self
    }

    /// `messages.enabled`: whether WebSocket messages are counted. A service can override it.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, ServiceLimits};
    /// let chat = ServiceLimits::new("chat").websocket("/ws").count_ws_messages(true);
    /// assert!(Limits::new().count_ws_messages(false).service(chat).check().is_ok());
    /// ```
    pub fn count_ws_messages(mut self, count: bool) -> Self {
        self.counts.messages = Some(count);
        self
    }

    /// The maximum of requests per window; higher values at any level are capped.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, PartialLimit, RateLimiter};
    /// let limits = Limits::new().max_requests(50).max_burst(20).platform(PartialLimit::new().requests(80));
    /// let capped = RateLimiter::new(limits)?.effective_limits().into_iter().find(|limit| limit.is_capped());
    /// assert_eq!(capped.map(|limit| (limit.limit.requests(), limit.limit.burst())), Some((50, 20)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_requests(mut self, requests: u32) -> Self {
        self.max_requests = Some(requests);
        self
    }

    /// The maximum burst; higher values at any level are capped.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, RateLimiter};
    /// let limits = RateLimiter::new(Limits::new().max_burst(20))?.effective_limits();
    /// assert!(limits.iter().any(|limit| limit.is_capped() && limit.limit.burst() == 20));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_burst(mut self, burst: u32) -> Self {
        self.max_burst = Some(burst);
        self
    }

    /// `platform.scope: global`: each client has one bucket for all services, with the platform's limit.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, PartialLimit, ServiceLimits, error::LimitsError};
    /// let shop = ServiceLimits::new("shop").limit(PartialLimit::per_second(1));
    /// let error = Limits::new().global_scope().service(shop).check().unwrap_err();
    /// assert!(matches!(error, LimitsError::GlobalScope { .. })); // The service's limit would never be charged.
    /// ```
    pub fn global_scope(mut self) -> Self {
        self.global_scope = true;
        self
    }

    /// The limit of one address, summed over all client names it uses. The default is ten times the widest limit
    /// of a single client.
    ///
    /// ```
    /// # use hivemind_tower::{LimitKind, Limits, PartialLimit, RateLimiter};
    /// let limits = Limits::new().ip_guard(PartialLimit::per_second(50).burst(50));
    /// let limits = RateLimiter::new(limits)?.effective_limits();
    /// let guard = limits.iter().find(|limit| limit.kind == LimitKind::IpGuard).ok_or("no guard")?;
    /// assert_eq!(guard.limit.burst(), 50);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ip_guard(mut self, limit: PartialLimit) -> Self {
        self.ip_guard = IpGuardLimit::Limit(limit);
        self
    }

    /// Disables the guard of addresses. Clients that make up a token for each request are not limited then, so
    /// use it only if a component in front of this layer verifies the tokens.
    ///
    /// ```
    /// # use hivemind_tower::{LimitKind, Limits, RateLimiter};
    /// let limits = RateLimiter::new(Limits::new().without_ip_guard())?.effective_limits();
    /// assert!(limits.iter().all(|limit| limit.kind != LimitKind::IpGuard));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn without_ip_guard(mut self) -> Self {
        self.ip_guard = IpGuardLimit::Off;
        self
    }

    /// Adds a service, or replaces the one of this name.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, PartialLimit, ServiceLimits};
    /// let shop = ServiceLimits::new("shop").limit(PartialLimit::per_second(5));
    /// assert!(Limits::new().service(shop).check().is_ok());
    /// ```
    pub fn service(mut self, service: ServiceLimits) -> Self {
        self.services.retain(|other| other.name != service.name);
        self.services.push(service);
        self
    }

    /// With `false`, all requests pass and nothing is counted.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, RateLimiter};
    /// let disabled = RateLimiter::new(Limits::new().enabled(false))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = enabled;
        self
    }
}
