//! Connections without an authenticated call give way when places run out: clients that only hold connections keep
//! neither callers nor probes nor operators out. Loopback addresses have no limit per client unless it is set.

use crate::idle_clients::{Behavior, IdleClients, Latencies, connect_from, raise_file_limit};
use crate::service::{RULES, body};
use hivemind_testkit::authority::put;
use hivemind_testkit::http2::{Connection, ConnectionEnd, Frame, HEALTH_CHECK, Headers, framed, reason};
use hivemind_testkit::{Server, Setup, get, hivemind, within};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const TOKEN: &str = "the-operators-token-0123456789";
/// The connections of the admin and metrics ports, and by default of the gRPC port.
const MAX: usize = 1_024;
/// Those that unauthenticated connections leave free.
const RESERVED: usize = 64;
const LOCAL: Ipv4Addr = Ipv4Addr::LOCALHOST;
const CALLER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
/// An unoptimized service on a busy machine; without the bound a call took until its deadline.
const PROMPT: Duration = Duration::from_secs(2);

/// A service with API keys and an operator's token, and a valid key.
async fn with_keys(settings: &[(&str, &str)]) -> (Server, String) {
    let (code, output) = hivemind(&["keys", "new", "--name", "web"]);
    assert_eq!(code, Some(0), "{output}");
    let mut lines = output.lines().filter_map(|line| line.strip_prefix("  "));
    let (key, line) = (lines.next().unwrap().to_owned(), lines.next().unwrap());
    let setup = Setup::rules(RULES);
    let [keys, token] = ["keys", "token"].map(|name| setup.path().join(name));
    put(&keys, line);
    put(&token, TOKEN);
    let setup = setup
        .with("security.api_keys_file", keys.to_str().unwrap())
        .with("security.admin.token_file", token.to_str().unwrap());
    let setup = settings.iter().fold(setup, |setup, (key, value)| setup.with(key, value));
    (setup.start().await, key)
}

fn with_key(key: &str) -> Headers {
    Headers::call().with("x-api-key", key)
}

async fn open_from(source: Ipv4Addr, to: SocketAddr) -> Connection {
    let socket = connect_from(source, to).await.expect("a connection");
    Connection::try_open_on(socket).await.expect("an open connection")
}

/// A call on a new connection, and its summary.
async fn call_from(source: Ipv4Addr, to: SocketAddr, headers: &Headers) -> String {
    open_from(source, to).await.call(headers, &body("free=x")).await.summary()
}

fn assert_ok(answer: &str) {
    assert!(answer.starts_with("OK 1000000/DAY"), "{answer}");
}

/// A request of an operator on an open connection; its status line.
async fn operate(connection: &mut TcpStream) -> String {
    let request =
        format!("GET /api/v1/version HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
    let mut answer = [0; 4_096];
    let read = within("an answer", connection.read(&mut answer)).await.unwrap();
    String::from_utf8_lossy(&answer[..read]).lines().next().unwrap_or_default().to_owned()
}

async fn command(arguments: &'static [&'static str], server: &Server) -> (Option<i32>, String) {
    let url = format!("http://{}", server.admin);
    let run = tokio::task::spawn_blocking(move || {
        let mut arguments = arguments.to_vec();
        arguments.extend(["--url", &url]);
        hivemind(&arguments)
    });
    within("a command", run).await.unwrap()
}

// Seen failing on: the service before, where each of these calls waited until its deadline.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_do_not_keep_grpc_callers_out() {
    raise_file_limit();
    let (server, key) = with_keys(&[]).await;
    let key = with_key(&key);
    let mut open = open_from(CALLER, server.grpc).await;
    assert_ok(&open.call(&key, &body("free=x")).await.summary());
    let from = |number| Ipv4Addr::new(127, 0, 0, 2 + u8::try_from(number % 5).unwrap());
    let idle = IdleClients::connect(server.grpc, (1_100, Behavior::Http2), from, None).await;
    idle.closed(1_100 + 1 - (MAX - RESERVED)).await;
    let mut latencies = Latencies::default();
    for _ in 0..50 {
        for source in [CALLER, LOCAL] {
            let call = call_from(source, server.grpc, &key);
            assert_ok(&latencies.measure("a call", call).await);
        }
    }
    let p99 = latencies.p99();
    assert!(p99 < PROMPT, "{p99:?}");
    assert_ok(&open.call(&key, &body("free=x")).await.summary());
    assert_eq!(open.go_aways, [], "an authenticated connection stays open");
}

// Seen failing on: the service before, where these requests timed out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_do_not_keep_operators_and_probes_out() {
    raise_file_limit();
    let (server, _) = with_keys(&[]).await;
    let mut operator = connect_from(CALLER, server.admin).await.unwrap();
    assert_eq!(operate(&mut operator).await, "HTTP/1.1 200 OK");
    let from = |number| Ipv4Addr::new(127, 0, 0, 2 + u8::try_from(number % 5).unwrap());
    let mut ports = Vec::new();
    for port in [server.admin, server.metrics] {
        let idle = IdleClients::connect(port, (1_100, Behavior::Health), from, None).await;
        idle.closed(1_100 - (MAX - RESERVED)).await;
        ports.push(idle);
    }
    let mut latencies = Latencies::default();
    for _ in 0..50 {
        for (port, path) in
            [(server.admin, "/healthz"), (server.admin, "/readyz"), (server.metrics, "/metrics")]
        {
            assert_eq!(latencies.measure(path, get(port, path)).await.code, 200, "{path}");
        }
    }
    let p99 = latencies.p99();
    assert!(p99 < PROMPT, "{p99:?}");
    assert_eq!(command(&["health"], &server).await.0, Some(0));
    let mut other = connect_from(CALLER, server.admin).await.unwrap();
    for connection in [&mut other, &mut operator] {
        assert_eq!(operate(connection).await, "HTTP/1.1 200 OK", "an operator's connection stays open");
    }
}

// Seen failing on: no limit per client; an authenticated connection closed for a new one.
#[tokio::test]
async fn client_at_its_limit_replaces_its_own_idle_connection() {
    let (server, key) = with_keys(&[("server.max_connections_per_client", "2")]).await;
    let key = with_key(&key);
    let mut first = open_from(CALLER, server.grpc).await;
    assert_ok(&first.call(&key, &body("free=x")).await.summary());
    let mut idle = open_from(CALLER, server.grpc).await;
    idle.ping().await;
    let mut second = open_from(CALLER, server.grpc).await;
    assert_eq!(idle.ended().await, ConnectionEnd::WentAway(reason::NO_ERROR), "the idle one gives way");
    assert_ok(&second.call(&key, &body("free=x")).await.summary());
    // Both are authenticated.
    let third = connect_from(CALLER, server.grpc).await.unwrap();
    let refused = async {
        if let Some(mut third) = Connection::try_open_on(third).await {
            while third.read().await.is_some() {}
        }
    };
    within("the refusal", refused).await;
    assert_ok(&call_from(Ipv4Addr::new(127, 0, 0, 8), server.grpc, &key).await);
    for connection in [&mut first, &mut second] {
        assert_ok(&connection.call(&key, &body("free=x")).await.summary());
    }
}

// Seen failing on: calls in flight ignored.
#[tokio::test]
async fn connection_with_a_call_in_flight_is_evicted_last() {
    let (server, key) = with_keys(&[("server.max_connections", "2")]).await;
    // Without a key, this one is never authenticated.
    let mut busy = open_from(LOCAL, server.grpc).await;
    let stream = busy.begin(&Headers::of(HEALTH_CHECK)).await;
    // The first acknowledgment may precede the start of the call, the second one does not.
    busy.ping().await;
    busy.ping().await;
    let mut idle = open_from(LOCAL, server.grpc).await;
    idle.ping().await;
    assert_ok(&call_from(CALLER, server.grpc, &with_key(&key)).await);
    assert_eq!(idle.ended().await, ConnectionEnd::WentAway(reason::NO_ERROR));
    busy.send(&[Frame::data(stream, framed(&[])).end()]).await;
    assert_eq!(busy.answer(stream).await.reset, None);
    assert_eq!(busy.go_aways, []);
}

// Seen failing on: no such timeout.
#[tokio::test]
async fn connection_without_a_first_call_gets_goaway_in_time() {
    let setup = Setup::rules(RULES).with("server.first_call_timeout", "300ms");
    let server = setup.start().await;
    let mut called = Connection::open(&server).await;
    assert_ok(&called.ask("d", "free=x").await);
    let mut idle = Connection::open(&server).await;
    assert_eq!(idle.ended().await, ConnectionEnd::WentAway(reason::NO_ERROR));
    assert_ok(&called.ask("d", "free=x").await);
    assert_eq!(called.go_aways, []);
}

/// Legitimate traffic during an attack: its 99th percentiles, for calls on new and on open connections and for probes.
async fn serve_through(server: &Server, key: &Headers, rounds: usize) -> [Duration; 3] {
    let mut latencies = [(); 3].map(|()| Latencies::default());
    let mut open = open_from(CALLER, server.grpc).await;
    for _ in 0..rounds {
        assert_ok(&latencies[0].measure("a call", call_from(CALLER, server.grpc, key)).await);
        let call = async { open.call(key, &body("free=x")).await.summary() };
        assert_ok(&latencies[1].measure("a call", call).await);
        assert_eq!(latencies[2].measure("health", get(server.admin, "/healthz")).await.code, 200);
    }
    assert_eq!(open.go_aways, []);
    latencies.map(|mut of| of.p99())
}

/// Attacks the gRPC and admin ports from these addresses, and checks how long callers and probes wait. A client that was
/// closed connects again after `pause`.
async fn attack(count: usize, pause: Duration, from: impl Fn(usize) -> Ipv4Addr + Copy) {
    raise_file_limit();
    // Loopback addresses are limited only if it is set.
    let (server, key) = with_keys(&[("server.max_connections_per_client", "256")]).await;
    let key = with_key(&key);
    assert_ok(&call_from(CALLER, server.grpc, &key).await);
    let pause = Some(pause);
    let grpc = IdleClients::connect(server.grpc, (count, Behavior::Http2), from, pause).await;
    let http = (count / 3, Behavior::Health);
    let admin = IdleClients::connect(server.admin, http, from, pause).await;
    let [new, open, health] = serve_through(&server, &key, 1_000).await;
    let report = format!(
        "{count} clients: calls p99 {new:?} on new and {open:?} on open connections, /healthz p99 {health:?}; closed {} \
         connections of gRPC and {} of admin\n",
        grpc.closed_count(),
        admin.closed_count()
    );
    // Written directly, because the test runner shows the output of failed tests only.
    std::io::stderr().write_all(report.as_bytes()).unwrap();
    // An unoptimized service on a busy machine takes longer.
    let slack = if cfg!(debug_assertions) { 50 } else { 1 };
    let (calls, probes) = (slack * Duration::from_millis(10), slack * Duration::from_millis(50));
    assert!(new < calls && open < calls && health < probes, "{new:?}, {open:?}, {health:?}");
    assert_eq!(command(&["health"], &server).await.0, Some(0));
    let mut operator = connect_from(LOCAL, server.admin).await.unwrap();
    assert_eq!(operate(&mut operator).await, "HTTP/1.1 200 OK");
}

fn is_long() -> bool {
    std::env::var_os("HIVEMIND_LONG").is_some_and(|value| value == "1")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attack_from_three_addresses_does_not_delay_callers() {
    if is_long() {
        let from = |number| Ipv4Addr::new(127, 0, 0, 2 + u8::try_from(number % 3).unwrap());
        attack(3_000, Duration::from_secs(1), from).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attack_from_many_addresses_does_not_delay_callers() {
    if is_long() {
        let from = |number| Ipv4Addr::from_bits(0x7f01_0000 + u32::try_from(number).unwrap());
        attack(10_000, Duration::from_secs(10), from).await;
    }
}
