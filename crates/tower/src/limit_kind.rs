//! Limit kinds and scopes: what a limit counts, and which service and endpoint it applies to.

use std::fmt;

/// What a limit counts.
///
/// ```
/// use hivemind_tower::LimitKind;
///
/// assert_eq!(LimitKind::WsConnection.name(), "ws_connection");
/// assert_eq!(LimitKind::IpGuard.to_string(), "ip_guard");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimitKind {
    /// Requests of one client to a service or to one of its endpoints.
    Http,
    /// WebSocket connections that one client opens to one service.
    WsConnection,
    /// Messages of one WebSocket.
    WsMessage,
    /// WebSocket connections that one client has open to one service at the same time.
    WsOpen,
    /// Requests of one address, summed over all client names it uses.
    IpGuard,
}

impl LimitKind {
    /// Its name in events and attributes: `http`, `ws_connection`, `ws_message`, `ws_open` or `ip_guard`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::WsConnection => "ws_connection",
            Self::WsMessage => "ws_message",
            Self::WsOpen => "ws_open",
            Self::IpGuard => "ip_guard",
        }
    }

    /// The key domain of its counters. The leading colon keeps them apart from the domains of rule files.
    pub(crate) const fn domain(self) -> &'static str {
        match self {
            Self::Http => ":http",
            Self::WsConnection => ":ws_connection",
            Self::WsMessage => ":ws_message",
            Self::WsOpen => ":ws_open",
            Self::IpGuard => ":ip_guard",
        }
    }

    /// Whether excess can be delayed. A message has already arrived, and an address waits by the limits of
    /// its clients.
    pub(crate) const fn is_delayable(self) -> bool {
        matches!(self, Self::Http | Self::WsConnection)
    }

    /// The entry keys of its counters, in order.
    pub(crate) const fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Http => &["service", "endpoint", "client"],
            Self::WsConnection | Self::WsMessage | Self::WsOpen => &["service", "client"],
            Self::IpGuard => &["address"],
        }
    }
}

impl fmt::Display for LimitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The entry keys of an address guard that applies to one service and endpoint only.
pub(crate) const SCOPED_GUARD_KEYS: [&str; 3] = ["service", "endpoint", "address"];

/// The service and endpoint that a limit applies to.
pub(crate) struct LimitScope<'a> {
    pub(crate) kind: LimitKind,
    /// `None` is the platform: every service without limits of its own.
    pub(crate) service: Option<&'a str>,
    pub(crate) endpoint: &'a str,
}

impl fmt::Display for LimitScope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.service {
            None => write!(f, "the platform ({})", self.kind),
            Some(service) => write!(f, "`{service}` {} ({})", self.endpoint, self.kind),
        }
    }
}
