//! Client frames, limiters and in-memory connections.

use super::super::{FrameLimits, PingLimit, SpliceSummary, splice};
use axum::Extension;
use axum::Router;
use axum::body::Body;
use axum::routing::get;
use hivemind_core::{ManualClock, Timestamp};
use hivemind_tower::websocket::{ConnectionGuard, MessageLimiter};
use hivemind_tower::{Limits, PartialLimit, RateLimiter, ServiceLimits};
use http::Request;
use std::num::NonZeroU32;
use std::time::Duration;
use tokio::io::DuplexStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::Role;
use tower_service::Service;

/// Pings per second.
pub(super) const PINGS: u32 = 20;
pub(super) const IDLE: Duration = Duration::from_secs(60);
const MASK: [u8; 4] = [0xA5, 0x5A, 0x0F, 0xF1];

/// A limiter of this many messages; its clock stands still.
pub(super) async fn limiter(messages: u32) -> MessageLimiter {
    let limits = ServiceLimits::new("api").websocket("/");
    let limits = limits.ws_message(PartialLimit::per_second(1).burst(messages));
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_040_000));
    let limiter = RateLimiter::builder(Limits::new().service(limits)).clock(clock).build().unwrap();
    let (sender, mut received) = tokio::sync::mpsc::unbounded_channel();
    let handler = move |Extension(guard): Extension<ConnectionGuard>| async move {
        let _ = sender.send(guard.open().unwrap());
    };
    let mut router: Router = Router::new().route("/", get(handler)).layer(limiter.layer("api"));
    let handshake = [
        ("upgrade", "websocket"),
        ("connection", "upgrade"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ];
    let request =
        handshake.into_iter().fold(Request::builder(), |request, (name, value)| request.header(name, value));
    let request = request.body(Body::empty()).unwrap();
    assert_eq!(Service::call(&mut router, request).await.unwrap().status(), 200);
    received.try_recv().unwrap()
}

/// A client frame. The first byte contains FIN, reserved bits and opcode.
pub(super) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        short @ ..126 => frame.push(0x80 | u8::try_from(short).unwrap()),
        middling @ 126..0x1_0000 => {
            frame.push(0x80 | 0x7E);
            frame.extend(u16::try_from(middling).unwrap().to_be_bytes());
        }
        long => {
            frame.push(0x80 | 0x7F);
            frame.extend(u64::try_from(long).unwrap().to_be_bytes());
        }
    }
    frame.extend(MASK);
    frame.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    frame
}

/// A server frame: without a mask, and short.
pub(super) fn server_frame(first: u8, payload: &[u8]) -> Vec<u8> {
    [&[first, u8::try_from(payload.len()).unwrap()], payload].concat()
}

/// A spliced connection whose ends are controlled by the test.
pub(super) struct SplicedConnection {
    pub(super) client: DuplexStream,
    pub(super) upstream: DuplexStream,
    pub(super) stop: watch::Sender<bool>,
    pub(super) spliced: JoinHandle<SpliceSummary>,
}

impl SplicedConnection {
    /// With buffers of this size on both sides.
    pub(super) fn open(limiter: Option<MessageLimiter>, buffer: usize) -> Self {
        let (client, client_end) = tokio::io::duplex(buffer);
        let (upstream, upstream_end) = tokio::io::duplex(buffer);
        let (stop, stopped) = watch::channel(false);
        let pings = || PingLimit::new(NonZeroU32::new(PINGS).unwrap());
        let limits = limiter.map(|messages| FrameLimits { messages, pings: pings() });
        let spliced = tokio::spawn(splice(client_end, upstream_end, limits, IDLE, stopped));
        Self { client, upstream, stop, spliced }
    }
}

pub(super) async fn socket(stream: DuplexStream, role: Role) -> WebSocketStream<DuplexStream> {
    WebSocketStream::from_raw_socket(stream, role, None).await
}
