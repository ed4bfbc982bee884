//! WebSocket limits: a guard for the upgrade, and a limiter for the messages of one connection.
//!
//! Messages are counted in the connection's own limiter and not in the store. One reader owns it, so nothing
//! is shared, clients cannot fill a table by opening connections, and the count ends with the connection.
//! The limit is looked up for each message, so a reload reaches open connections.
//!
//! ```
//! use hivemind_tower::{Limits, Admission, PartialLimit, RateLimiter, ServiceLimits};
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
//! # let clock = hivemind_core::ManualClock::default();
//! let chat = ServiceLimits::new("chat").websocket("/ws").ws_message(PartialLimit::per_second(10).burst(2));
//! let limiter = RateLimiter::builder(Limits::new().service(chat)).clock(clock).build()?.service_limiter("chat");
//! let (handshake, ()) = http::Request::get("/ws")
//!     .header("connection", "upgrade")
//!     .header("upgrade", "websocket")
//!     .header("sec-websocket-version", "13")
//!     .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
//!     .body(())?
//!     .into_parts();
//! let Admission::Admitted(pass) = runtime.block_on(limiter.admit(&handshake, None)) else { panic!("refused") };
//! let mut messages = pass.guard().ok_or("no WebSocket")?.open()?;
//! assert!(messages.is_counting());
//! assert!(messages.check().is_ok() && messages.check().is_ok());
//! let close = messages.check().unwrap_err();
//! assert_eq!(close.to_string(), "4429: Rate limit exceeded. Retry after 1 second.");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::client::Client;
use crate::limiter_state::LimiterState;
use crate::open_connections::OpenConnection;
use crate::refusal_log::LimitExceeded;
use crate::retry_after::RetryAfter;
use crate::tokens::has_token;
use hivemind_core::Cost;
use hivemind_core::algorithm::{Action, State, step};
use hivemind_core::store::Key;
use http::header::{CONNECTION, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::request::Parts;
use http::{Method, Version};
use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// The code and reason to close a WebSocket with.
///
/// A handler writes it into a close frame:
///
/// ```
/// use hivemind_tower::websocket::Close;
///
/// fn close_frame(close: &Close) -> Vec<u8> {
///     [&close.code.to_be_bytes(), close.reason.as_bytes()].concat()
/// }
/// assert_eq!(Close::CODE, 4429);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Close {
    /// The close code: 4429, in analogy to HTTP's 429.
    pub code: u16,
    /// The reason, shorter than 124 bytes so that it fits into a control frame.
    pub reason: Cow<'static, str>,
}

impl Close {
    /// The close code for a client over its limit.
    pub const CODE: u16 = 4429;

    fn of(wait: Option<RetryAfter>) -> Self {
        let reason = wait.map_or(Cow::Borrowed("Rate limit exceeded."), |wait| wait.to_string().into());
        Self { code: Self::CODE, reason }
    }
}

impl fmt::Display for Close {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.reason)
    }
}

impl std::error::Error for Close {}

/// The guard of a WebSocket upgrade, in the extensions of its request. [`open`](ConnectionGuard::open) returns
/// the connection's message limiter, or the reason to close the connection.
///
/// In a handler of axum:
///
/// ```
/// use axum::extract::{Extension, WebSocketUpgrade, ws::WebSocket};
/// use hivemind_tower::websocket::ConnectionGuard;
///
/// async fn chat(upgrade: WebSocketUpgrade, guard: Extension<ConnectionGuard>) -> axum::response::Response {
///     upgrade.on_upgrade(async move |mut socket: WebSocket| {
///         let Ok(mut messages) = guard.open() else { return }; // The client is over its limit.
///         while let Some(Ok(_)) = socket.recv().await {
///             if messages.check().is_err() {
///                 return;
///             }
///         }
///     })
/// }
/// ```
#[derive(Clone)]
pub struct ConnectionGuard(Arc<Mutex<GuardState>>);

enum GuardState {
    Admitted { connection: ConnectionContext, open: Option<OpenConnection> },
    Closed(Close),
}

/// The client and service of a connection.
pub(crate) struct ConnectionContext {
    pub(crate) state: Arc<LimiterState>,
    pub(crate) service: Arc<str>,
    pub(crate) client: Client,
}

impl ConnectionGuard {
    pub(crate) fn new(connection: ConnectionContext, open: Option<OpenConnection>) -> Self {
        Self(Arc::new(Mutex::new(GuardState::Admitted { connection, open })))
    }

    pub(crate) fn closed(wait: Option<RetryAfter>) -> Self {
        Self(Arc::new(Mutex::new(GuardState::Closed(Close::of(wait)))))
    }

    /// Returns the limiter of the connection's messages. Keep it as long as the connection: it also counts as
    /// the open connection.
    ///
    /// # Errors
    /// If the client is over its limit and the service uses `close_4429`: close the connection with this code
    /// right after the handshake. Also if the guard was opened before.
    pub fn open(&self) -> Result<MessageLimiter, Close> {
        let mut guarded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let again = GuardState::Closed(Close { code: 1011, reason: "This guard was opened before.".into() });
        match std::mem::replace(&mut *guarded, again) {
            GuardState::Closed(close) => {
                *guarded = GuardState::Closed(close.clone());
                Err(close)
            }
            GuardState::Admitted { connection, open } => {
                Ok(MessageLimiter { connection, count: None, _open: open })
            }
        }
    }
}

impl fmt::Debug for ConnectionGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionGuard").finish_non_exhaustive()
    }
}

/// Limits the messages of one WebSocket. Dropping it discards its count.
///
/// For servers that read frames themselves:
///
/// ```
/// use hivemind_tower::websocket::{Close, MessageLimiter};
///
/// /// The first octet of a frame has its opcode.
/// fn on_frame(messages: &mut MessageLimiter, frame: &[u8]) -> Result<(), Close> {
///     messages.check_frame(frame.first().copied().unwrap_or_default() & 0x0F)
/// }
/// ```
pub struct MessageLimiter {
    connection: ConnectionContext,
    /// The count and its counter's key. Another algorithm or window has another key and starts a new count.
    count: Option<(Key, State)>,
    _open: Option<OpenConnection>,
}

impl MessageLimiter {
    /// Whether the active limits count messages. If not, a proxy can forward frames without parsing them, but
    /// then it misses limits that a later reload activates.
    #[must_use]
    pub fn is_counting(&self) -> bool {
        let ConnectionContext { state, service, .. } = &self.connection;
        let limits = state.limits.load();
        limits.enabled && limits.service(service).ws_message.is_some()
    }

    /// Charges one text or binary message from the client, regardless of its number of fragments. Do not call
    /// it for pings, pongs and closes, which are free.
    ///
    /// # Errors
    /// If the message is over the limit: close the connection with this code.
    pub fn check(&mut self) -> Result<(), Close> {
        let ConnectionContext { state, service, client } = &self.connection;
        let limits = state.limits.load();
        if !limits.enabled {
            return Ok(());
        }
        let Some(bucket) = &limits.service(service).ws_message else { return Ok(()) };
        let (counter, now) = (bucket.prefix.key([""]), state.clock.now());
        let count = self.count.filter(|(key, _)| *key == counter).map(|(_, count)| count);
        let action = Action::Spend { count_refusal: false };
        let step = step(&bucket.limit, count, action, Cost::ONE, now);
        self.count = Some((counter, step.state));
        let retry_after = RetryAfter::of(step.verdict.outcome);
        if retry_after.is_none() {
            return Ok(());
        }
        let (endpoint, is_dry_run) = (&*bucket.endpoint, bucket.dry_run);
        state.log.record_exceeded(&LimitExceeded {
            client,
            service,
            endpoint,
            bucket,
            retry_after,
            is_dry_run,
            at: now,
        });
        if is_dry_run { Ok(()) } else { Err(Close::of(retry_after)) }
    }

    /// Charges a frame by its opcode, for servers that read frames themselves: the first frame of a text or
    /// binary message is charged; its continuations and control frames are free.
    ///
    /// # Errors
    /// Like [`MessageLimiter::check`].
    pub fn check_frame(&mut self, opcode: u8) -> Result<(), Close> {
        match opcode {
            0x0 | 0x8..=0xF => Ok(()),
            _ => self.check(),
        }
    }
}

impl fmt::Debug for MessageLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConnectionContext { service, client, .. } = &self.connection;
        f.debug_struct("MessageLimiter")
            .field("service", service)
            .field("client", client)
            .finish_non_exhaustive()
    }
}

/// Whether a request opens a WebSocket: a complete handshake (RFC 6455), or HTTP/2's CONNECT (RFC 8441).
///
/// A handshake that a server would not accept is an ordinary request; otherwise a single header would turn a
/// refusal with 429 into an upgrade that is closed with 4429. Repeated headers count, since some servers read
/// the first line and some the last.
pub(crate) fn is_handshake(parts: &Parts) -> bool {
    let headers = &parts.headers;
    match parts.method {
        Method::GET => {
            parts.version == Version::HTTP_11
                && has_token(headers, &UPGRADE, "websocket")
                && has_token(headers, &CONNECTION, "upgrade")
                && has_token(headers, &SEC_WEBSOCKET_VERSION, "13")
                && headers.contains_key(SEC_WEBSOCKET_KEY)
        }
        Method::CONNECT => headers.contains_key(SEC_WEBSOCKET_VERSION),
        _ => false,
    }
}
