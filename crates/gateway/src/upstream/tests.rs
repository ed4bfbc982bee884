//! Connection pools without a network.

use super::*;
use hyper_util::rt::TokioIo;
use tokio::io::DuplexStream;

async fn http1() -> (http1::SendRequest<RequestBody>, DuplexStream) {
    let (ours, theirs) = tokio::io::duplex(1 << 10);
    let (mut sender, connection) = http1::handshake(TokioIo::new(ours)).await.unwrap();
    tokio::task::spawn_local(connection);
    sender.ready().await.unwrap();
    (sender, theirs)
}

async fn http2() -> (Shared, DuplexStream) {
    let (ours, theirs) = tokio::io::duplex(1 << 10);
    let tasks = super::super::local::LocalTasks;
    let (sender, connection) = http2::Builder::new(tasks).handshake(TokioIo::new(ours)).await.unwrap();
    tokio::task::spawn_local(connection);
    (Shared { sender, token: Arc::default(), most: Arc::new(usize::MAX.into()) }, theirs)
}

fn upstream() -> Upstream {
    let upstream = settings::Upstream { is_tls: false, host: "127.0.0.1".into(), port: 1 };
    Upstream::new(Address { upstream, http2: false, ca: None }, &Outside::default(), 1).unwrap()
}

#[tokio::test]
async fn expired_pooled_connection_is_not_used() {
    let test = async {
        let mut lane = Lane::default();
        let now = super::super::now();
        let (old, young) = (http1().await, http1().await);
        lane.put(old.0, now);
        lane.put(young.0, now.saturating_add(LONGEST_IDLE));
        let afterwards = now.saturating_add(LONGEST_IDLE + Duration::from_millis(1));
        assert!(lane.take(afterwards).is_some());
        assert!(lane.take(afterwards).is_none());
    };
    tokio::task::LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn extra_streams_open_connections_up_to_the_maximum() {
    let test = async {
        let mut lane = Lane::default();
        let now = super::super::now();
        let (mut users, mut ends) = (Vec::new(), Vec::new());
        for opened in 1..=MOST_HTTP2 {
            assert!(lane.take(now).is_none(), "all {} are in full use", opened - 1);
            let (shared, end) = http2().await;
            lane.share(&shared);
            drop(shared);
            ends.push(end);
            users.extend((0..MOST_STREAMS).map(|_| lane.take(now).expect("it has room")));
        }
        assert!(lane.take(now).is_some(), "no more connections: they share");
        users.clear();
        assert!(lane.take(now).is_some());
    };
    tokio::task::LocalSet::new().run_until(test).await;
}

// Fails when all upstreams get the same number of streams.
#[tokio::test]
async fn announced_stream_limit_is_respected() {
    let test = async {
        let mut lane = Lane::default();
        let now = super::super::now();
        let (shared, _end) = http2().await;
        shared.most.store(2, Ordering::Relaxed);
        lane.share(&shared);
        let most = Arc::clone(&shared.most);
        drop(shared);
        let _users = (lane.take(now).expect("the first"), lane.take(now).expect("the second"));
        assert!(lane.take(now).is_none(), "a third needs another connection");
        most.store(3, Ordering::Relaxed);
        assert!(lane.take(now).is_some(), "the limit was raised");
    };
    tokio::task::LocalSet::new().run_until(test).await;
}

#[test]
fn unreachable_upstream_is_skipped_longer_then_probed() {
    let spans: Vec<u64> = (0..8).map(|misses| left_out_for(misses).as_secs()).collect();
    assert_eq!(spans, [1, 2, 4, 8, 16, 30, 30, 30]);
    let upstream = Arc::new(upstream());
    upstream.leave_out(&NoLine::TooSlow);
    let now = super::super::now();
    assert!(upstream.is_left_out(now));
    // As if the second were over.
    upstream.left_out_until.store(1, Ordering::Relaxed);
    assert!(!upstream.is_left_out(now));
    let _probe = upstream.lease(0).unwrap();
    assert!(upstream.is_left_out(now), "one request probes, others go elsewhere");
    upstream.answers();
    assert!(!upstream.is_left_out(now));
}
