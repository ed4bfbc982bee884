//! What most of these tests ask, and the rules they ask it of.

use hivemind_testkit::http2::{Connection, framed};
use hivemind_testkit::{Server, Setup, request};
use prost::Message;
use std::cell::Cell;

/// Nine a day for each value of `k`, and no end of `free`.
pub(crate) const RULES: &str = "
domain: d
descriptors:
- {key: k, rate_limit: {unit: day, requests_per_unit: 9}}
- {key: free, rate_limit: {unit: day, requests_per_unit: 1000000}}
";

/// The body of a call: one hit, for descriptors in the short form of the other tests.
pub(crate) fn body(text: &str) -> Vec<u8> {
    framed(&request("d", text).encode_to_vec())
}

/// A service with these rules, and a connection to it.
pub(crate) async fn served() -> (Server, Connection) {
    let server = Server::with_rules(RULES).await;
    let connection = Connection::open(&server).await;
    (server, connection)
}

/// The same with one thread for all connections, so that none is served by being elsewhere.
pub(crate) async fn served_by_one_thread() -> (Server, Connection) {
    let server = Setup::rules(RULES).with("server.workers", "1").start().await;
    let mut connection = Connection::open(&server).await;
    still_serves(&mut connection).await;
    (server, connection)
}

/// Keeps an honest connection busy while something else goes on.
pub(crate) async fn served_meanwhile<T>(honest: &mut Connection, other: impl Future<Output = T>) -> T {
    let done = Cell::new(false);
    let other = async {
        let outcome = other.await;
        done.set(true);
        outcome
    };
    let calls = async {
        loop {
            still_serves(honest).await;
            if done.get() {
                return;
            }
        }
    };
    tokio::join!(other, calls).0
}

/// The connection still works.
pub(crate) async fn still_serves(connection: &mut Connection) {
    let answer = connection.ask("d", "free=x").await;
    assert!(answer.starts_with("OK 1000000/DAY"), "{answer}");
}
