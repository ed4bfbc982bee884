//! Tests of the priority of asks.

use super::*;
use hivemind_mesh::NodeId;
use std::sync::Mutex;
use tokio::io::{DuplexStream, duplex};

fn link() -> (Link, Queues) {
    let member = Member::new(NodeId::new("b"), 1);
    let (address, chain) = (SocketAddr::from(([192, 0, 2, 1], 1)), Vec::new());
    let (initiator, since) = (Initiator::Local, Timestamp::EPOCH);
    Link::new(
        LinkPeer {
            member,
            address,
            initiator,
            renews: false,
            chain,
            since,
            until: Timestamp::MAX,
            quic: None,
        },
        Arc::default(),
    )
}

fn halves(stream: DuplexStream) -> (Reads, Writes) {
    let (reads, writes) = tokio::io::split(stream);
    (Box::new(reads), Box::new(writes))
}

async fn next(stream: &mut DuplexStream) -> (Option<MessageKind>, Vec<u8>) {
    let mut body = Vec::new();
    let kind = timeout(READ_TIMEOUT, message::read(stream, &mut body, 10_000)).await;
    (kind.expect("in time").unwrap(), body)
}

// Fails when asks share a queue or a stream with other frames.
#[tokio::test]
async fn asks_pass_in_both_directions_while_frames_are_blocked() {
    let (main, mut main_there) = duplex(64);
    let (asks, mut asks_there) = duplex(4_096);
    let (link, queues) = link();
    let received = Mutex::new(Vec::new());
    let streams = Streams { main: halves(main), asks: Some(halves(asks)) };
    let peer = async {
        for _ in 0..MAX_QUEUED_FRAMES {
            link.send(Lane::Sync, &[7; 1_000]); // The peer does not read them.
        }
        link.send(Lane::Ask, b"ask");
        assert_eq!(next(&mut asks_there).await, (Some(MessageKind::Ask), b"ask".to_vec()));
        // An incomplete frame.
        main_there.write_all(&[2, 0, 0, 0, 9, 1]).await.unwrap();
        message::write(&mut asks_there, MessageKind::Ask, b"answer").await.unwrap();
        while received.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        link.close();
    };
    let on_message = |kind, body: &[u8]| received.lock().unwrap().push((kind, body.to_vec()));
    let (ended, ()) = tokio::join!(link.run(streams, queues, on_message), peer);
    ended.unwrap();
    assert_eq!(*received.lock().unwrap(), [(MessageKind::Ask, b"answer".to_vec())]);
}

// Fails when the other queue has priority.
#[tokio::test]
async fn queued_asks_precede_queued_frames_on_one_stream() {
    let (main, mut there) = duplex(1 << 16);
    let (link, queues) = link();
    link.send(Lane::Sync, b"frame");
    link.send(Lane::Ask, b"ask");
    link.send(Lane::Ask, b"another");
    let peer = async {
        assert_eq!(next(&mut there).await, (Some(MessageKind::Ask), b"ask".to_vec()));
        assert_eq!(next(&mut there).await, (Some(MessageKind::Ask), b"another".to_vec()));
        assert_eq!(next(&mut there).await, (Some(MessageKind::Sync), b"frame".to_vec()));
        link.close();
    };
    let streams = Streams { main: halves(main), asks: None };
    let (ended, ()) = tokio::join!(link.run(streams, queues, |_, _| ()), peer);
    ended.unwrap();
}

#[tokio::test]
async fn full_queue_drops_frames_and_counts_them() {
    let (link, _queues) = link();
    for _ in 0..MAX_QUEUED_FRAMES + 3 {
        link.send(Lane::Sync, b"frame");
    }
    assert_eq!(link.traffic.totals().frames_lost, 3);
}

// Fails when asks always have priority.
#[tokio::test]
async fn flood_of_asks_does_not_block_frames_on_one_stream() {
    let (main, mut there) = duplex(1 << 16);
    let (link, queues) = link();
    link.send(Lane::Sync, b"frame");
    let peer = async {
        loop {
            // Keeps the queue of asks filled.
            for _ in 0..20 {
                link.send(Lane::Ask, &[7; 1_000]);
            }
            if next(&mut there).await.0 == Some(MessageKind::Sync) {
                break;
            }
        }
        link.close();
    };
    let streams = Streams { main: halves(main), asks: None };
    let both = async { tokio::join!(link.run(streams, queues, |_, _| ()), peer) };
    let (ended, ()) = timeout(Duration::from_secs(60), both).await.expect("the frame is written");
    ended.unwrap();
}
