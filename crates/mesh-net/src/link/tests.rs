//! Lanes beside each other.

use super::*;
use hivemind_mesh::NodeId;
use std::sync::Mutex;
use tokio::io::{DuplexStream, duplex};

fn link() -> (Link, Queues) {
    let member = Member::new(NodeId::new("b"), 1);
    let (address, chain) = (SocketAddr::from(([192, 0, 2, 1], 1)), Vec::new());
    let (began, since) = (Began::Here, Timestamp::EPOCH);
    Link::new(
        Party { member, address, began, renews: false, chain, since, until: Timestamp::MAX, quic: None },
        Arc::default(),
    )
}

fn halves(stream: DuplexStream) -> (Reads, Writes) {
    let (reads, writes) = tokio::io::split(stream);
    (Box::new(reads), Box::new(writes))
}

async fn next(stream: &mut DuplexStream) -> (Option<Kind>, Vec<u8>) {
    let mut body = Vec::new();
    let kind = timeout(SILENCE, message::read(stream, &mut body, 10_000)).await;
    (kind.expect("in time").unwrap(), body)
}

// Seen failing on: one queue for both; one stream for both.
#[tokio::test]
async fn an_ask_goes_out_and_comes_in_while_frames_are_stuck() {
    let (main, mut main_there) = duplex(64);
    let (asks, mut asks_there) = duplex(4_096);
    let (link, queues) = link();
    let heard = Mutex::new(Vec::new());
    let streams = Streams { main: halves(main), asks: Some(halves(asks)) };
    let talking = async {
        for _ in 0..MOST_FRAMES {
            link.send(Lane::Sync, &[7; 1_000]); // Nobody reads them.
        }
        link.send(Lane::Ask, b"ask");
        assert_eq!(next(&mut asks_there).await, (Some(Kind::Ask), b"ask".to_vec()));
        // Half of a frame that does not go on.
        main_there.write_all(&[2, 0, 0, 0, 9, 1]).await.unwrap();
        message::write(&mut asks_there, Kind::Ask, b"answer").await.unwrap();
        while heard.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        link.close();
    };
    let hear = |kind, body: &[u8]| heard.lock().unwrap().push((kind, body.to_vec()));
    let (ended, ()) = tokio::join!(link.run(streams, queues, hear), talking);
    ended.unwrap();
    assert_eq!(*heard.lock().unwrap(), [(Kind::Ask, b"answer".to_vec())]);
}

// Seen failing on: the other queue first.
#[tokio::test]
async fn over_one_stream_an_ask_that_waits_goes_before_frames_that_do() {
    let (main, mut there) = duplex(1 << 16);
    let (link, queues) = link();
    link.send(Lane::Sync, b"frame");
    link.send(Lane::Ask, b"ask");
    link.send(Lane::Ask, b"another");
    let talking = async {
        assert_eq!(next(&mut there).await, (Some(Kind::Ask), b"ask".to_vec()));
        assert_eq!(next(&mut there).await, (Some(Kind::Ask), b"another".to_vec()));
        assert_eq!(next(&mut there).await, (Some(Kind::Sync), b"frame".to_vec()));
        link.close();
    };
    let streams = Streams { main: halves(main), asks: None };
    let (ended, ()) = tokio::join!(link.run(streams, queues, |_, _| ()), talking);
    ended.unwrap();
}

#[tokio::test]
async fn a_queue_that_is_full_loses_frames_and_counts_them() {
    let (link, _queues) = link();
    for _ in 0..MOST_FRAMES + 3 {
        link.send(Lane::Sync, b"frame");
    }
    assert_eq!(link.traffic.totals().frames_lost, 3);
}

// Against: asks first, for ever.
#[tokio::test]
async fn over_one_stream_asks_without_end_leave_frames_their_turn() {
    let (main, mut there) = duplex(1 << 16);
    let (link, queues) = link();
    link.send(Lane::Sync, b"frame");
    let talking = async {
        loop {
            // There is always another that waits.
            for _ in 0..20 {
                link.send(Lane::Ask, &[7; 1_000]);
            }
            if next(&mut there).await.0 == Some(Kind::Sync) {
                break;
            }
        }
        link.close();
    };
    let streams = Streams { main: halves(main), asks: None };
    let both = async { tokio::join!(link.run(streams, queues, |_, _| ()), talking) };
    let (ended, ()) = timeout(Duration::from_secs(60), both).await.expect("the frame has its turn");
    ended.unwrap();
}
