//! Messages that begin and do not end: what is held of all of them has a bound on each connection.

use crate::http2::{Connection, Ended, Headers, reason::ENHANCE_YOUR_CALM};
use crate::memory::Memory;
use crate::rules::{body, served_by_one_thread, served_meanwhile, still_serves};

const RESOURCE_EXHAUSTED: u32 = 8;
const MOST_GROWTH_KIB: u64 = 20 << 10;

#[tokio::test]
async fn unfinished_messages_of_225_megabytes_are_not_held() {
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
    let ended = served_meanwhile(&mut honest, flood).await;
    memory.assert_grown_by_less(MOST_GROWTH_KIB, "unfinished messages");
    let answers = hostile.streams.values();
    let refused = answers.filter(|answer| answer.grpc_status() == Some(RESOURCE_EXHAUSTED)).count();
    // The first ones are held, and wait for their end; the others are told why they are not.
    assert!((1..900).contains(&refused), "{refused} were refused");
    // Whoever goes on sending to streams that were refused is cut off sooner or later.
    assert!([None, Some(Ended::WentAway(ENHANCE_YOUR_CALM))].contains(&ended), "{ended:?}");
    still_serves(&mut Connection::open(&server).await).await;
}
