//! The transport with a store that waits, fails and panics, over real sockets: the memory store never does. Its
//! behavior is tested in `tests/serve` and `tests/wire`.

use super::{CallerAuth, GrpcConnection, GrpcTimeouts, start_workers};
use crate::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use crate::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use crate::proto::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use crate::proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use crate::rls::RateLimitService;
use hivemind_core::store::{
    Charge, Context, KeySeed, LocalStore, MemoryStore, Store, StoreError, StoreOptions, Verdicts,
};
use hivemind_core::{Clock, SystemClock};
use hivemind_engine::rule_files::parse_rules;
use hivemind_engine::ruleset::Ruleset;
use hivemind_engine::service::Service;
use hivemind_engine::storage::{OnError, Storage};
use hivemind_engine::testing::options;
use hivemind_telemetry::Stats;
use hivemind_tls::connections::{ConnectionAdmission, ConnectionLimit, ConnectionLimits, NewConnection};
use hivemind_tls::socket::Socket;
use hivemind_tls::workers::WorkerExit;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, Semaphore, watch};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

const RULES: &str = "domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: day, requests_per_unit: 100}}\n";
const LONG: Duration = Duration::from_secs(60);

/// A store that acts on the value of the first entry; a permit releases a waiting decision.
struct ScriptedStore {
    memory: MemoryStore,
    permits: Semaphore,
    /// Notified when a decision starts to wait.
    waits: Notify,
}

impl ScriptedStore {
    fn action<'a>(batch: &[Charge<'a>]) -> &'a str {
        batch.first().and_then(|charge| charge.parts.entries.first()).map_or("", |(_, value)| value)
    }
}

impl Store for ScriptedStore {
    async fn decide(&self, batch: &[Charge<'_>], context: Context) -> Result<Verdicts, StoreError> {
        match Self::action(batch) {
            "fails" => return Err(StoreError::Unreachable { reason: "no route".into() }),
            // Uses up its whole deadline.
            "late" => {
                let time_left = context.deadline.unwrap().since(SystemClock.now());
                let _ = tokio::time::timeout(time_left, std::future::pending::<()>()).await;
                return Err(StoreError::DeadlinePassed);
            }
            "waits" => {
                self.waits.notify_one();
                drop(self.permits.acquire().await);
            }
            "panics later" => {
                tokio::task::yield_now().await;
                panic!("on purpose");
            }
            _ => {}
        }
        assert!(context.deadline.is_some(), "a waiting store has a deadline");
        Ok(self.memory.decide_now(batch, context))
    }

    fn try_decide(&self, batch: &[Charge<'_>], context: Context) -> Option<Verdicts> {
        match Self::action(batch) {
            "panics" => panic!("on purpose"),
            "" | "ready" => Some(self.memory.decide_now(batch, context)),
            _ => None,
        }
    }

    async fn forget(&self, _: &Charge<'_>) -> Result<(), StoreError> {
        Ok(())
    }
}

struct TestServer {
    address: SocketAddr,
    store: Arc<ScriptedStore>,
    stop: watch::Sender<bool>,
    ended: WorkerExit,
}

impl TestServer {
    /// One thread, so that a blocked thread blocks all calls.
    async fn start(call: Duration) -> Self {
        Self::start_with(call, LONG).await
    }

    async fn start_with(call: Duration, ping: Duration) -> Self {
        let memory = MemoryStore::new(StoreOptions::default());
        let store = Arc::new(ScriptedStore { memory, permits: Semaphore::new(0), waits: Notify::new() });
        let options = hivemind_engine::service::Options { dynamic_metadata: false, ..options() };
        let seed = KeySeed::random();
        let own = MemoryStore::new(StoreOptions::default());
        let storage = Storage::shared(Arc::clone(&store), own, OnError::Closed);
        storage.set_connected();
        let service =
            Service::new(Ruleset::default(), Arc::new(storage), seed, options, Arc::<Stats>::default());
        service.reload(parse_rules("rules", RULES).unwrap().ruleset);
        let service = RateLimitService(Arc::new(service));
        let (stop, stopped) = watch::channel(false);
        let timeouts =
            GrpcTimeouts { handshake: LONG, first_call: LONG, call, idle: LONG, age: LONG, ping, pong: ping };
        let routes = tonic::service::Routes::default();
        let started =
            start_workers(NonZeroUsize::MIN, &service, &routes, &CallerAuth::default(), timeouts, &stopped)
                .await;
        let (workers, ended) = started.unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let count = NonZeroUsize::new(10).unwrap();
            let limit = ConnectionLimit::new(ConnectionLimits { max: count, per_client: count, reserved: 0 });
            let mut stopped = stopped;
            loop {
                tokio::select! {
                    _ = stopped.changed() => return,
                    accepted = listener.accept() => {
                        let (stream, peer) = accepted.unwrap();
                        let new = NewConnection { client: peer.ip().into(), is_limited: false, is_local: true };
                        let ConnectionAdmission::Admitted { permit, .. } = limit.admit(&new) else {
                            panic!("more than ten connections")
                        };
                        workers.deal(GrpcConnection { socket: Socket::try_from(stream).unwrap(), permit });
                    }
                }
            }
        });
        Self { address, store, stop, ended }
    }

    async fn client(&self) -> RateLimitServiceClient<Channel> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address)).unwrap();
        RateLimitServiceClient::new(endpoint.connect().await.unwrap())
    }
}

fn request(action: &str) -> RateLimitRequest {
    let entries = vec![Entry { key: "k".into(), value: action.into() }];
    let descriptors = vec![RateLimitDescriptor { entries, ..RateLimitDescriptor::default() }];
    RateLimitRequest { domain: "d".into(), descriptors, hits_addend: 0 }
}

async fn call(client: &RateLimitServiceClient<Channel>, action: &str) -> Result<RateLimitResponse, Status> {
    let call =
        async |mut client: RateLimitServiceClient<Channel>| client.should_rate_limit(request(action)).await;
    let response = tokio::time::timeout(LONG, call(client.clone())).await.expect("an answer in time");
    response.map(tonic::Response::into_inner)
}

fn remaining(response: &RateLimitResponse) -> u32 {
    response.statuses[0].limit_remaining
}

/// Fails when the decision is awaited in the task of the connection.
#[tokio::test]
async fn waiting_decision_delays_no_other_call() {
    let server = TestServer::start(LONG).await;
    let (same, other) = (server.client().await, server.client().await);
    let waiting = tokio::spawn({
        let client = same.clone();
        async move { call(&client, "waits").await }
    });
    server.store.waits.notified().await;
    for spent in 0..10 {
        assert_eq!(remaining(&call(&same, "ready").await.unwrap()), 99 - spent);
        assert_eq!(remaining(&call(&other, "").await.unwrap()), 99 - spent);
    }
    assert!(!waiting.is_finished());
    server.store.permits.add_permits(1);
    assert_eq!(remaining(&waiting.await.unwrap().unwrap()), 99);
}

#[tokio::test]
async fn waiting_decision_fails_at_its_deadline() {
    let server = TestServer::start(Duration::from_millis(50)).await;
    let client = server.client().await;
    let error = call(&client, "waits").await.unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded, "{error}");
    assert_eq!(remaining(&call(&client, "ready").await.unwrap()), 99);
}

#[tokio::test]
async fn unreachable_store_is_answered_by_policy() {
    let server = TestServer::start(LONG).await;
    let response = call(&server.client().await, "fails").await.unwrap();
    assert_eq!(response.overall_code, 2, "OVER_LIMIT: {response:?}");
    assert_eq!(response.statuses[0].duration_until_reset.unwrap().seconds, 1);
}

/// Fails when the store is granted more than the caller's time.
#[tokio::test]
async fn store_deadline_is_before_the_callers_deadline() {
    let server = TestServer::start(LONG).await;
    let mut request = tonic::Request::new(request("late"));
    request.set_timeout(Duration::from_secs(2));
    let mut client = server.client().await;
    let response = client.should_rate_limit(request).await.expect("the policy's answer").into_inner();
    assert_eq!(response.overall_code, 2, "OVER_LIMIT: {response:?}");
}

/// Fails (the second call) without either of the two `catch_unwind`.
#[tokio::test]
async fn panic_ends_only_its_own_call() {
    let server = TestServer::start(LONG).await;
    let client = server.client().await;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { call(&client, "waits").await }
    });
    let immediate = call(&client, "panics").await.unwrap_err();
    assert_eq!(immediate.code(), Code::Internal, "{immediate}");
    let later = call(&client, "panics later").await.unwrap_err();
    assert_ne!(later.code(), Code::Ok);
    assert_eq!(remaining(&call(&client, "ready").await.unwrap()), 99);
    server.store.permits.add_permits(1);
    assert_eq!(remaining(&waiting.await.unwrap().unwrap()), 99);
}

#[tokio::test]
async fn drain_waits_for_a_waiting_decision() {
    let server = TestServer::start(LONG).await;
    let client = server.client().await;
    call(&client, "ready").await.unwrap();
    let waiting = tokio::spawn(async move { call(&client, "waits").await });
    server.store.waits.notified().await;
    server.stop.send_replace(true);
    server.store.permits.add_permits(1);
    assert_eq!(remaining(&waiting.await.unwrap().unwrap()), 99);
    tokio::time::timeout(LONG, server.ended.wait()).await.expect("the threads end");
}

/// Fails with one minute between pings.
#[tokio::test]
async fn peer_without_ping_response_is_disconnected() {
    let server = TestServer::start_with(LONG, Duration::from_millis(50)).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    silent.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00").await.unwrap();
    let mut received = Vec::new();
    let ended = tokio::time::timeout(LONG, silent.read_to_end(&mut received)).await;
    ended.expect("the end of the connection").ok();
    // A frame of 8 bytes and type 6: a ping was sent.
    assert!(received.windows(4).any(|bytes| bytes == [0, 0, 8, 6]), "{received:?}");
}
