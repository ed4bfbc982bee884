//! Configured limits of one service: its own, those of its endpoints and those of its WebSockets.

use crate::partial_limit::PartialLimit;

/// The limits of one service. Fields left out are inherited from the platform.
///
/// ```
/// use hivemind_tower::{Limits, PartialLimit, ServiceLimits};
///
/// let few = PartialLimit::new().requests(5).burst(5);
/// let shop = ServiceLimits::new("shop")
///     .limit(PartialLimit::per_second(20))
///     .endpoint("POST /login", few)
///     .named_endpoint("export", ["GET", "POST"], "/export/{*path}", few)
///     .websocket("/ws")
///     .ws_connection(few)
///     .ws_message(PartialLimit::per_second(10))
///     .max_open_connections(3)
///     .close_on_limit();
/// assert_eq!(Limits::new().service(shop).check(), Ok(()));
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ServiceLimits {
    pub(crate) name: String,
    pub(crate) limit: PartialLimit,
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) ws_connection: PartialLimit,
    pub(crate) ws_message: PartialLimit,
    pub(crate) counts: WebSocketCounting,
    pub(crate) websockets: Vec<String>,
    pub(crate) websocket_anywhere: bool,
    pub(crate) max_open: Option<u32>,
    pub(crate) close_4429: bool,
}

/// What is counted of WebSockets; `None` inherits from the platform.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WebSocketCounting {
    pub(crate) connections: Option<bool>,
    pub(crate) messages: Option<bool>,
}

/// An endpoint of a service, with its own limit.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    /// Its name in counters, headers and logs.
    pub(crate) name: String,
    /// Whether the name was chosen; otherwise it is the pattern.
    pub(crate) is_named: bool,
    pub(crate) patterns: Vec<String>,
    pub(crate) limit: PartialLimit,
}

impl ServiceLimits {
    /// A service of this name, with the platform's limits.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, ServiceLimits};
    /// assert!(Limits::new().service(ServiceLimits::new("shop")).check().is_ok());
    /// assert!(Limits::new().service(ServiceLimits::new("my shop")).check().is_err());
    /// ```
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            limit: PartialLimit::new(),
            endpoints: Vec::new(),
            ws_connection: PartialLimit::new(),
            ws_message: PartialLimit::new(),
            counts: WebSocketCounting::default(),
            websockets: Vec::new(),
            websocket_anywhere: false,
            max_open: None,
            close_4429: false,
        }
    }

    /// The limit of each client of this service. Endpoints can override it.
    pub fn limit(mut self, limit: PartialLimit) -> Self {
        self.limit = limit;
        self
    }

    /// The limit of each client of one endpoint: a path pattern as in axum, optionally after a method:
    /// `/users/{id}`, `POST /login`, `GET /files/{*path}`.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, PartialLimit, ServiceLimits};
    /// let one = PartialLimit::per_second(1);
    /// let with = |pattern| Limits::new().service(ServiceLimits::new("shop").endpoint(pattern, one));
    /// assert!(with("GET /users/{id}").check().is_ok());
    /// assert!(with("users").check().is_err()); // A path begins with a slash.
    /// ```
    pub fn endpoint(mut self, pattern: impl Into<String>, limit: PartialLimit) -> Self {
        let pattern = pattern.into();
        let patterns = vec![pattern.clone()];
        self.endpoints.push(Endpoint { name: pattern, is_named: false, patterns, limit });
        self
    }

    /// The limit of each client of a named endpoint: a path with these methods, which share one bucket, or with
    /// all methods if none is given. Counters, headers and logs use its name.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, PartialLimit, RateLimiter, ServiceLimits};
    /// let five = PartialLimit::new().requests(5);
    /// let shop = ServiceLimits::new("shop").named_endpoint("login", ["POST"], "/login", five);
    /// let limits = RateLimiter::new(Limits::new().service(shop))?.effective_limits();
    /// let login = limits.iter().find(|limit| limit.endpoint == "login").ok_or("no limit of its own")?;
    /// assert_eq!(login.patterns, ["POST /login"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn named_endpoint<M: AsRef<str>>(
        mut self,
        name: impl Into<String>,
        methods: impl IntoIterator<Item = M>,
        path: &str,
        limit: PartialLimit,
    ) -> Self {
        let mut patterns: Vec<String> =
            methods.into_iter().map(|method| format!("{} {path}", method.as_ref())).collect();
        if patterns.is_empty() {
            patterns.push(path.to_owned());
        }
        self.endpoints.push(Endpoint { name: name.into(), is_named: true, patterns, limit });
        self
    }

    /// A path pattern where WebSockets are opened, without a method. Only there is an upgrade charged as a
    /// connection. An upgrade to any other path is charged like any other request.
    pub fn websocket(mut self, path: impl Into<String>) -> Self {
        self.websockets.push(path.into());
        self
    }

    /// WebSockets are opened at any path. An upgrade is then charged as a connection only if the connection limit
    /// is stricter than that of its endpoint, because the client chooses the upgrade headers: they must not move
    /// a request to a wider limit.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, ServiceLimits};
    /// assert!(Limits::new().service(ServiceLimits::new("chat").websocket_anywhere()).check().is_ok());
    /// ```
    pub fn websocket_anywhere(mut self) -> Self {
        self.websocket_anywhere = true;
        self
    }

    /// The limit on WebSocket connections that a client opens, summed over all [paths](Self::websocket).
    pub fn ws_connection(mut self, limit: PartialLimit) -> Self {
        self.ws_connection = limit;
        self
    }

    /// The limit on messages of one WebSocket.
    pub fn ws_message(mut self, limit: PartialLimit) -> Self {
        self.ws_message = limit;
        self
    }

    /// `connections.enabled`: like [`Limits::count_ws_connections`](crate::Limits::count_ws_connections), for this
    /// service.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, ServiceLimits};
    /// let chat = ServiceLimits::new("chat").websocket("/ws").count_ws_connections(false);
    /// assert!(Limits::new().service(chat).check().is_ok());
    /// ```
    pub fn count_ws_connections(mut self, count: bool) -> Self {
        self.counts.connections = Some(count);
        self
    }

    /// `messages.enabled`: like [`Limits::count_ws_messages`](crate::Limits::count_ws_messages), for this service.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, ServiceLimits};
    /// let chat = ServiceLimits::new("chat").websocket("/ws").count_ws_messages(false);
    /// assert!(Limits::new().service(chat).check().is_ok());
    /// ```
    pub fn count_ws_messages(mut self, count: bool) -> Self {
        self.counts.messages = Some(count);
        self
    }

    /// The maximum of WebSocket connections that a client has open at the same time; for an address it is ten
    /// times as many. Counted for handlers that [open](crate::websocket::ConnectionGuard::open) their guard. An
    /// attempt beyond the maximum is charged to `ws_connection` too.
    pub fn max_open_connections(mut self, connections: u32) -> Self {
        self.max_open = Some(connections);
        self
    }

    /// `on_limit: close_4429`: an upgrade over its limit reaches the handler, whose guard then returns the close
    /// code 4429. Scripts in a browser cannot see a 429. The handler runs for each attempt, except for those that
    /// the guard of an address refuses: they get 429.
    pub fn close_on_limit(mut self) -> Self {
        self.close_4429 = true;
        self
    }
}
