//! What most of these tests ask, and the rules they ask it of.

use crate::http2::{Connection, framed};
use crate::support::{Server, request};
use prost::Message;

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

/// The connection still works.
pub(crate) async fn still_serves(connection: &mut Connection) {
    let answer = connection.ask("d", "free=x").await;
    assert!(answer.starts_with("OK 1000000/DAY"), "{answer}");
}
