//! The service under test: its rules, and calls to it.

use hivemind_testkit::http2::{Connection, framed};
use hivemind_testkit::{Server, Setup, request};
use prost::Message;
use std::cell::Cell;

/// Nine per day for each value of `k`, and a large limit for `free`.
pub(crate) const RULES: &str = "
domain: d
descriptors:
- {key: k, rate_limit: {unit: day, requests_per_unit: 9}}
- {key: free, rate_limit: {unit: day, requests_per_unit: 1000000}}
";

/// The body of a call of one hit, with descriptors in the short form.
pub(crate) fn body(text: &str) -> Vec<u8> {
    framed(&request("d", text).encode_to_vec())
}

/// A service with these rules, and a connection to it.
pub(crate) async fn served() -> (Server, Connection) {
    let server = Server::with_rules(RULES).await;
    let connection = Connection::open(&server).await;
    (server, connection)
}

/// The same with one worker thread, so that all connections share it.
pub(crate) async fn served_by_one_thread() -> (Server, Connection) {
    let server = Setup::rules(RULES).with("server.workers", "1").start().await;
    let mut connection = Connection::open(&server).await;
    assert_still_serves(&mut connection).await;
    (server, connection)
}

/// Keeps an honest connection busy while another future runs.
pub(crate) async fn while_serving<T>(honest: &mut Connection, other: impl Future<Output = T>) -> T {
    let done = Cell::new(false);
    let other = async {
        let outcome = other.await;
        done.set(true);
        outcome
    };
    let calls = async {
        loop {
            assert_still_serves(honest).await;
            if done.get() {
                return;
            }
        }
    };
    tokio::join!(other, calls).0
}

/// Asserts that the connection still works.
pub(crate) async fn assert_still_serves(connection: &mut Connection) {
    let answer = connection.ask("d", "free=x").await;
    assert!(answer.starts_with("OK 1000000/DAY"), "{answer}");
}
