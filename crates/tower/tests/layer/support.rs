//! Test support: a server with a layer on a free port, and a client that returns every header.

use axum::Router;
use axum::extract::ConnectInfo;
use axum::routing::any;
use bytes::Bytes;
use hivemind_core::{ManualClock, Timestamp};
use hivemind_tower::{Limits, PartialLimit, RateLimiter, RateLimiterBuilder, ServiceLimits};
use http::{Request, Response};
use http_body_util::Empty;
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tower::Service;

/// The start time of every test: a whole minute, so that windows start with it.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_700_000_040_000);
pub(crate) const START_SECONDS: u64 = 1_700_000_040;

/// A token bucket of `burst` with `rate` tokens per second.
pub(crate) fn bucket(rate: u32, burst: u32) -> PartialLimit {
    PartialLimit::per_second(rate).burst(burst)
}

/// Limits with the single service `api`.
pub(crate) fn api(limit: PartialLimit) -> Limits {
    Limits::new().service(ServiceLimits::new("api").limit(limit))
}

pub(crate) fn clock() -> ManualClock {
    ManualClock::at(START)
}

/// A builder with this clock, which reads the peer from axum's extension.
pub(crate) fn builder(limits: Limits, clock: &ManualClock) -> RateLimiterBuilder {
    RateLimiter::builder(limits)
        .clock(clock.clone())
        .peer(|extensions| extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.ip()))
}

pub(crate) fn limiter(limits: Limits, clock: &ManualClock) -> RateLimiter {
    builder(limits, clock).build().unwrap()
}

/// A tower service that returns an empty response to every request.
pub(crate) fn hello()
-> impl Service<Request<Empty<Bytes>>, Response = Response<Empty<Bytes>>, Error = Infallible, Future: Send>
+ Clone
+ Send {
    tower::service_fn(|_| std::future::ready(Ok(Response::new(Empty::new()))))
}

/// A request from 192.0.2.`last`.
pub(crate) fn request_from(last: u8) -> Request<Empty<Bytes>> {
    let mut request = Request::new(Empty::new());
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from(([192, 0, 2, last], 9))));
    request
}

/// The headers of a WebSocket handshake.
pub(crate) const HANDSHAKE: [(&str, &str); 4] = [
    ("Upgrade", "websocket"),
    ("Connection", "Upgrade"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    /// The number of requests that reached the inner service.
    pub(crate) calls: Arc<AtomicU32>,
}

impl Server {
    /// Responds with `hello` to every admitted request.
    pub(crate) async fn start(limiter: &RateLimiter) -> Self {
        let calls = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&calls);
        let hello = move || {
            counter.fetch_add(1, Ordering::SeqCst);
            async { "hello" }
        };
        let router = Router::new().fallback(any(hello)).layer(limiter.layer("api"));
        Self { calls, ..Self::serve(router).await }
    }

    pub(crate) async fn serve(router: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = router.into_make_service_with_connect_info::<SocketAddr>();
        tokio::spawn(async move { axum::serve(listener, service).await });
        Self { address, calls: Arc::default() }
    }

    pub(crate) fn calls(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }

    pub(crate) async fn get(&self, path: &str) -> TestResponse {
        self.ask(&format!("GET {path}"), &[]).await
    }

    /// Sends a request with this method and path, like `GET /`, and headers.
    pub(crate) async fn ask(&self, request: &str, headers: &[(&str, &str)]) -> TestResponse {
        self.ask_from(Ipv4Addr::LOCALHOST, request, headers).await
    }

    pub(crate) async fn ask_from(
        &self,
        from: Ipv4Addr,
        request: &str,
        headers: &[(&str, &str)],
    ) -> TestResponse {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        let stream = socket.connect(self.address).await.unwrap();
        answer(stream, request, headers).await
    }

    /// The statuses of `count` sequential requests.
    pub(crate) async fn statuses(&self, count: usize, path: &str) -> Vec<u16> {
        let mut statuses = Vec::new();
        for _ in 0..count {
            statuses.push(self.get(path).await.status);
        }
        statuses
    }
}

async fn answer(mut stream: TcpStream, request: &str, headers: &[(&str, &str)]) -> TestResponse {
    let mut request = format!("{request} HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n");
    for (name, value) in headers {
        request.extend([name, ": ", value, "\r\n"]);
    }
    request.push_str("\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    TestResponse::parse(&String::from_utf8(bytes).unwrap())
}

#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl TestResponse {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let mut lines = head.lines();
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_ascii_lowercase(), value.to_owned())
        };
        Self { status, headers: lines.map(header).collect(), body: body.to_owned() }
    }

    /// The value of a header, which must not be repeated.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(of, _)| of == name).map(|(_, value)| value.as_str());
        let value = values.next();
        assert_eq!(values.next(), None, "{name} is there twice");
        value
    }

    pub(crate) fn remaining(&self) -> u64 {
        self.header("x-ratelimit-remaining").unwrap().parse().unwrap()
    }
}
