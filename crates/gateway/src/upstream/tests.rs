//! Connection pools without a network.

use super::*;
use crate::settings;
use hyper_util::rt::TokioIo;
use tokio::io::DuplexStream;

async fn http1() -> (http1::SendRequest<RequestBody>, DuplexStream) {
    let (ours, theirs) = tokio::io::duplex(1 << 10);
    let (mut sender, connection) = http1::handshake(TokioIo::new(ours)).await.unwrap();
    tokio::task::spawn_local(connection);
    sender.ready().await.unwrap();
    (sender, theirs)
}

async fn http2() -> (Http2Connection, DuplexStream) {
    let (ours, theirs) = tokio::io::duplex(1 << 10);
    let tasks = super::super::local_tasks::LocalTasks;
    let (sender, connection) = http2::Builder::new(tasks).handshake(TokioIo::new(ours)).await.unwrap();
    tokio::task::spawn_local(connection);
    (Http2Connection { sender, token: Arc::default(), most: Arc::new(usize::MAX.into()) }, theirs)
}

fn upstream() -> Upstream {
    let upstream = settings::UpstreamUrl { is_tls: false, host: "127.0.0.1".into(), port: 1 };
    Upstream::new(UpstreamAddress { upstream, http2: false, ca: None }, &DialContext::default(), 1).unwrap()
}

#[tokio::test]
async fn expired_pooled_connection_is_not_used() {
    let test = async {
        let mut pool = ConnectionPool::default();
        let now = super::super::now();
        let (old, young) = (http1().await, http1().await);
        pool.put(old.0, now);
        pool.put(young.0, now.saturating_add(LONGEST_IDLE));
        let later = now.saturating_add(LONGEST_IDLE + Duration::from_millis(1));
        assert!(pool.take(later).is_some());
        assert!(pool.take(later).is_none());
    };
    tokio::task::LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn extra_streams_open_connections_up_to_the_maximum() {
    let test = async {
        let mut pool = ConnectionPool::default();
        let now = super::super::now();
        let (mut users, mut ends) = (Vec::new(), Vec::new());
        for opened in 1..=MAX_HTTP2 {
            assert!(pool.take(now).is_none(), "all {} are in full use", opened - 1);
            let (connection, end) = http2().await;
            pool.share(&connection);
            drop(connection);
            ends.push(end);
            users.extend((0..MAX_STREAMS).map(|_| pool.take(now).expect("it has room")));
        }
        assert!(pool.take(now).is_some(), "no more connections: they share");
        users.clear();
        assert!(pool.take(now).is_some());
    };
    tokio::task::LocalSet::new().run_until(test).await;
}

// Fails when all upstreams get the same number of streams.
#[tokio::test]
async fn announced_stream_limit_is_respected() {
    let test = async {
        let mut pool = ConnectionPool::default();
        let now = super::super::now();
        let (connection, _end) = http2().await;
        connection.most.store(2, Ordering::Relaxed);
        pool.share(&connection);
        let most = Arc::clone(&connection.most);
        drop(connection);
        let _users = (pool.take(now).expect("the first"), pool.take(now).expect("the second"));
        assert!(pool.take(now).is_none(), "a third needs another connection");
        most.store(3, Ordering::Relaxed);
        assert!(pool.take(now).is_some(), "the limit was raised");
    };
    tokio::task::LocalSet::new().run_until(test).await;
}

#[test]
fn unreachable_upstream_is_skipped_longer_then_probed() {
    let spans: Vec<u64> =
        (0..8).map(|consecutive_failures| skip_period(consecutive_failures).as_secs()).collect();
    assert_eq!(spans, [1, 2, 4, 8, 16, 30, 30, 30]);
    let upstream = Arc::new(upstream());
    upstream.record_unreachable(&DialFailure::TooSlow);
    let now = super::super::now();
    assert!(upstream.is_skipped(now));
    // As if the second were over.
    upstream.skipped_until.store(1, Ordering::Relaxed);
    assert!(!upstream.is_skipped(now));
    let _probe = upstream.slot(0).unwrap();
    assert!(upstream.is_skipped(now), "one request probes, others go elsewhere");
    upstream.answers();
    assert!(!upstream.is_skipped(now));
}
