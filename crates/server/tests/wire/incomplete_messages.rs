//! Incomplete messages: their total buffer is bounded per connection.

use crate::memory::Memory;
use crate::service::{assert_still_serves, body, served_by_one_thread, while_serving};
use hivemind_testkit::http2::{Connection, ConnectionEnd, Frame, Headers, known, reason::ENHANCE_YOUR_CALM};

const RESOURCE_EXHAUSTED: u32 = 8;
const MOST_GROWTH_KIB: u64 = 20 << 10;

#[tokio::test]
async fn incomplete_messages_of_225_megabytes_are_not_buffered() {
    let (server, mut honest) = served_by_one_thread().await;
    let memory = Memory::of(&server);
    let mut hostile = Connection::open(&server).await;
    hostile.ping().await;
    let whole = body(&format!("k={}", "x".repeat(250_000)));
    let unfinished = &whole[..whole.len() - 1];
    let flood = async {
        for _ in 0..900 {
            let stream = hostile.begin(&Headers::call()).await;
            if let Some(ended) = hostile.send_part(stream, unfinished).await {
                return Some(ended);
            }
        }
        hostile.flood_done().await
    };
    let ended = while_serving(&mut honest, flood).await;
    memory.assert_grown_by_less(MOST_GROWTH_KIB, "unfinished messages");
    let answers = hostile.streams.values();
    let refused = answers.filter(|answer| answer.grpc_status() == Some(RESOURCE_EXHAUSTED)).count();
    // The first ones are buffered and wait for their end; the others are refused with a status.
    assert!((1..900).contains(&refused), "{refused} were refused");
    // A client that keeps sending to refused streams is disconnected eventually.
    assert!([None, Some(ConnectionEnd::WentAway(ENHANCE_YOUR_CALM))].contains(&ended), "{ended:?}");
    assert_still_serves(&mut Connection::open(&server).await).await;
}

/// Fills connections with calls that never end, and asserts a bound on memory.
async fn assert_costs_little(
    what: &str,
    connections: usize,
    open: &[Frame],
    call: impl Fn(u32) -> Vec<Frame>,
) {
    let (server, mut honest) = served_by_one_thread().await;
    let memory = Memory::of(&server);
    let mut held = Vec::new();
    for _ in 0..connections {
        let mut connection = Connection::open(&server).await;
        connection.stream();
        connection.send(open).await;
        for _ in 0..900 {
            let stream = connection.stream();
            connection.send(&call(stream)).await;
        }
        connection.ping().await;
        assert_eq!(connection.go_aways, []);
        held.push(connection);
    }
    assert_still_serves(&mut honest).await;
    // A waiting call is larger in an unoptimized build like this: about 30 MiB in total.
    memory.assert_grown_by_less(48 << 10, what);
}

#[tokio::test]
async fn headers_of_waiting_calls_are_not_buffered() {
    // As many headers as a call may have, one byte each on the wire and a hundred in memory.
    let first = Headers::call().block();
    let entry = Headers::none().with("x", "").indexed_block();
    let open = Frame::headers(1, [first.clone(), entry].concat());
    let bomb = [first, vec![known(62); 110]].concat();
    assert_costs_little("headers", 4, &[open], |stream| vec![Frame::headers(stream, bomb.clone())]).await;
}

#[tokio::test]
async fn buffered_byte_does_not_retain_its_read_buffer() {
    // Seen failing on: 12 KB held for each byte.
    let open = Headers::call().frame(1);
    let call = |stream| {
        let filler = Frame::new(0x42, 0, 0, vec![0; 16_000]);
        vec![Headers::call().frame(stream), Frame::data(stream, [0]), filler]
    };
    assert_costs_little("bytes", 4, &[open], call).await;
}
