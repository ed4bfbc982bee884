//! Hostile clients that hold connections and never make an authenticated call.

use hivemind_core::{Clock, MonotonicClock};
use hivemind_testkit::http2::Connection;
use hivemind_testkit::within;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
/// The interval of unauthenticated requests: below the first request timeout.
const REQUEST_INTERVAL: Duration = Duration::from_secs(9);

/// What a hostile client does with its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Behavior {
    /// Sends the HTTP/2 preface and answers PINGs.
    Http2,
    /// Asks for `/healthz` again and again.
    Health,
}

/// Hostile clients, each in a task of its own.
pub(crate) struct IdleClients {
    closed: watch::Sender<usize>,
    _tasks: JoinSet<()>,
}

impl IdleClients {
    /// Connects all of them, client `n` from the address `from(n)`. A closed one connects again after `pause`
    /// or up to twice as long, so that they do not come in waves.
    pub(crate) async fn connect(
        to: SocketAddr,
        (count, behavior): (usize, Behavior),
        from: impl Fn(usize) -> Ipv4Addr,
        pause: Option<Duration>,
    ) -> Self {
        let (closed, connected) = (watch::Sender::new(0), watch::Sender::new(0));
        let mut tasks = JoinSet::new();
        for number in 0..count {
            let (source, closed, connected) = (from(number), closed.clone(), connected.clone());
            tasks.spawn(async move {
                let mut is_first = true;
                loop {
                    let socket = connect_from(source, to).await;
                    if std::mem::take(&mut is_first) {
                        connected.send_modify(|count| *count += 1);
                    }
                    if let Some(socket) = socket {
                        hold(socket, behavior).await;
                    }
                    closed.send_modify(|count| *count += 1);
                    let Some(pause) = pause else { return };
                    let pause = pause + pause * u32::try_from(number % 64).unwrap() / 64;
                    let _ = timeout(pause, std::future::pending::<()>()).await;
                }
            });
        }
        within("all connections", connected.subscribe().wait_for(|of| *of == count)).await.unwrap();
        Self { closed, _tasks: tasks }
    }

    /// Waits until the service has closed this many connections.
    pub(crate) async fn closed(&self, count: usize) {
        let mut closed = self.closed.subscribe();
        within("closed connections", closed.wait_for(|closed| *closed >= count)).await.unwrap();
    }

    pub(crate) fn closed_count(&self) -> usize {
        *self.closed.borrow()
    }
}

async fn hold(mut socket: TcpStream, behavior: Behavior) {
    match behavior {
        Behavior::Http2 => {
            if let Some(mut connection) = Connection::try_open_on(socket).await {
                while connection.read().await.is_some() {}
            }
        }
        Behavior::Health => {
            let mut answer = [0; 1_024];
            while socket.write_all(HEALTH).await.is_ok() {
                let read_to_end =
                    async { while socket.read(&mut answer).await.is_ok_and(|read| read > 0) {} };
                if timeout(REQUEST_INTERVAL, read_to_end).await.is_ok() {
                    return;
                }
            }
        }
    }
}

/// A connection from a loopback address.
pub(crate) async fn connect_from(source: Ipv4Addr, to: SocketAddr) -> Option<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(IpAddr::V4(source), 0)).unwrap();
    let stream = socket.connect(to).await.ok()?;
    stream.set_nodelay(true).unwrap();
    Some(stream)
}

/// Raises the limit on open files of this test: both ends of a connection need one.
pub(crate) fn raise_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}

/// Response times of legitimate calls.
#[derive(Default)]
pub(crate) struct Latencies(Vec<Duration>);

impl Latencies {
    pub(crate) async fn measure<T>(&mut self, what: &str, call: impl Future<Output = T>) -> T {
        let start = MonotonicClock.now();
        let answer = within(what, call).await;
        self.0.push(MonotonicClock.now().since(start));
        answer
    }

    /// The 99th percentile.
    pub(crate) fn p99(&mut self) -> Duration {
        self.0.sort_unstable();
        self.0[(self.0.len() * 99).div_ceil(100) - 1]
    }
}
