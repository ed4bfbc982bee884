//! The limits of one service, as they are configured: its own, its endpoints', its WebSockets'.

use crate::limits::CountedWebSockets;
use crate::partial_limit::PartialLimit;

/// The limits of one service, where they differ from the platform's.
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
    pub(crate) counts: CountedWebSockets,
    pub(crate) websockets: Vec<String>,
    pub(crate) websocket_anywhere: bool,
    pub(crate) max_open: Option<u32>,
    pub(crate) close_4429: bool,
}

/// A limit of its own for some of a service's requests.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    /// What it is counted by and told as.
    pub(crate) name: String,
    /// Whether that was chosen; if not, it is the pattern.
    pub(crate) is_named: bool,
    pub(crate) patterns: Vec<String>,
    pub(crate) limit: PartialLimit,
}

impl ServiceLimits {
    /// A service of this name, limited as the platform says.
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
            counts: CountedWebSockets::default(),
            websockets: Vec::new(),
            websocket_anywhere: false,
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

    /// The same for an endpoint with a name, at a path and by any of these methods, which share one
    /// bucket; by any at all if none is given. It is counted, told and logged by its name.
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

    /// A path where a WebSocket is opened: a pattern like an endpoint's, without a method. Only there
    /// is an upgrade charged as a connection. Anywhere else its header is just what a client says, and the
    /// request is charged like any other.
    pub fn websocket(mut self, path: impl Into<String>) -> Self {
        self.websockets.push(path.into());
        self
    }

    /// WebSockets are opened anywhere in the service. An upgrade's header is then all there is to tell one
    /// by, so it is charged as a connection only where that is the stricter limit: no request gets
    /// around a strict endpoint by saying that it is an upgrade.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, ServiceLimits};
    /// assert!(Limits::new().service(ServiceLimits::new("chat").websocket_anywhere()).check().is_ok());
    /// ```
    pub fn websocket_anywhere(mut self) -> Self {
        self.websocket_anywhere = true;
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

    /// `connections.enabled`, as [`Limits::count_ws_connections`](crate::Limits::count_ws_connections) for this service.
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

    /// `messages.enabled`, as [`Limits::count_ws_messages`](crate::Limits::count_ws_messages) for this service.
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
