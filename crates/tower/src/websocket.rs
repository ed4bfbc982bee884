//! WebSocket connections: a guard for the upgrade, and a limiter for the messages of one connection.
//!
//! A connection's messages are counted in the connection's own limiter, not in the
//! store: one reader owns them, so nothing is shared, no table is filled by who opens
//! many, and what was counted goes with the connection by construction. The limits are
//! looked up at each message: a reload reaches the connections that are open.
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
use crate::limiter::Shared;
use crate::open_connections::OpenConnection;
use crate::refusal_log::Exceeded;
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

/// Why and how a WebSocket has to be closed.
///
/// What a handler does with it:
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
    /// The close code, 4429: HTTP's 429 among the codes of applications.
    pub code: u16,
    /// The reason, under 124 bytes, which is what fits a control frame.
    pub reason: Cow<'static, str>,
}

impl Close {
    /// The close code of a client that is over its limit.
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

/// In the extensions of each request that opens a WebSocket. [Opened](ConnectionGuard::open), it
/// gives the connection's message limiter, or says that the connection has to be closed.
///
/// In a handler of axum:
///
/// ```
/// use axum::extract::{Extension, WebSocketUpgrade, ws::WebSocket};
/// use hivemind_tower::websocket::ConnectionGuard;
///
/// async fn chat(upgrade: WebSocketUpgrade, guard: Extension<ConnectionGuard>) -> axum::response::Response {
///     upgrade.on_upgrade(async move |mut socket: WebSocket| {
///         let Ok(mut messages) = guard.open() else { return }; // Over its limit.
///         while let Some(Ok(_)) = socket.recv().await {
///             if messages.check().is_err() {
///                 return;
///             }
///         }
///     })
/// }
/// ```
#[derive(Clone)]
pub struct ConnectionGuard(Arc<Mutex<Guarded>>);

enum Guarded {
    Admitted { connection: Connection, open: Option<OpenConnection> },
    Closed(Close),
}

/// Whose connection it is, and to what.
pub(crate) struct Connection {
    pub(crate) shared: Arc<Shared>,
    pub(crate) service: Arc<str>,
    pub(crate) client: Client,
}

impl ConnectionGuard {
    pub(crate) fn new(connection: Connection, open: Option<OpenConnection>) -> Self {
        Self(Arc::new(Mutex::new(Guarded::Admitted { connection, open })))
    }

    pub(crate) fn closed(wait: Option<RetryAfter>) -> Self {
        Self(Arc::new(Mutex::new(Guarded::Closed(Close::of(wait)))))
    }

    /// The limiter of the connection's messages. Keep it as long as the connection: it also counts
    /// as the open connection.
    ///
    /// # Errors
    /// If the client is over its limit and the service closes such connections: close it so, right
    /// after the handshake. Or if the guard was opened before.
    pub fn open(&self) -> Result<MessageLimiter, Close> {
        let mut guarded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let again = Guarded::Closed(Close { code: 1011, reason: "This guard was opened before.".into() });
        match std::mem::replace(&mut *guarded, again) {
            Guarded::Closed(close) => {
                *guarded = Guarded::Closed(close.clone());
                Err(close)
            }
            Guarded::Admitted { connection, open } => {
                Ok(MessageLimiter { connection, counted: None, _open: open })
            }
        }
    }
}

impl fmt::Debug for ConnectionGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionGuard").finish_non_exhaustive()
    }
}

/// Limits the messages of one WebSocket. What it counted is gone when it is dropped.
///
/// For who reads frames himself:
///
/// ```
/// use hivemind_tower::websocket::{Close, MessageLimiter};
///
/// /// The first octet of a frame has its opcode.
/// fn came(messages: &mut MessageLimiter, frame: &[u8]) -> Result<(), Close> {
///     messages.check_frame(frame.first().copied().unwrap_or_default() & 0x0F)
/// }
/// ```
pub struct MessageLimiter {
    connection: Connection,
    /// What was counted, and by which counter: one of another algorithm or window reads it otherwise.
    counted: Option<(Key, State)>,
    _open: Option<OpenConnection>,
}

impl MessageLimiter {
    /// Whether messages are counted by the limits that are in force now. Who only passes frames on need
    /// not look into them if not, and then does not learn of limits that come into force later.
    #[must_use]
    pub fn is_counting(&self) -> bool {
        let Connection { shared, service, .. } = &self.connection;
        let limits = shared.limits.load();
        limits.enabled && limits.service(service).ws_message.is_some()
    }

    /// Charges one message from the client: a text or binary message, whole, however many
    /// fragments it came in. Do not call it for pings, pongs and closes, which are free.
    ///
    /// # Errors
    /// If it is one too many: close the connection so.
    pub fn check(&mut self) -> Result<(), Close> {
        let Connection { shared, service, client } = &self.connection;
        let limits = shared.limits.load();
        if !limits.enabled {
            return Ok(());
        }
        let Some(bucket) = &limits.service(service).ws_message else { return Ok(()) };
        let (counter, now) = (bucket.prefix.key([""]), shared.clock.now());
        let state = self.counted.filter(|(by, _)| *by == counter).map(|(_, state)| state);
        let action = Action::Spend { count_refusal: false };
        let step = step(&bucket.limit, state, action, Cost::ONE, now);
        self.counted = Some((counter, step.state));
        let retry_after = RetryAfter::of(step.verdict.outcome);
        if retry_after.is_none() {
            return Ok(());
        }
        let (endpoint, is_dry_run) = (&*bucket.endpoint, bucket.dry_run);
        shared.log.exceeded(&Exceeded {
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

    /// Charges a frame by its opcode, for those who read frames: the first of a text or binary
    /// message is charged, and neither the fragments that follow it nor control frames are.
    ///
    /// # Errors
    /// As [`MessageLimiter::check`].
    pub fn check_frame(&mut self, opcode: u8) -> Result<(), Close> {
        match opcode {
            0x0 | 0x8..=0xF => Ok(()),
            _ => self.check(),
        }
    }
}

impl fmt::Debug for MessageLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Connection { service, client, .. } = &self.connection;
        f.debug_struct("MessageLimiter")
            .field("service", service)
            .field("client", client)
            .finish_non_exhaustive()
    }
}

/// Whether a request opens a WebSocket: a whole handshake (RFC 6455), or HTTP/2's CONNECT (RFC 8441). What a
/// server would not accept is a request like any other, or a single header would have it closed with 4429
/// where it should be refused. What is there twice counts all the same: some servers read the first line of
/// it, and some the last.
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
