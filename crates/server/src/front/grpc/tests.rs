//! The transport with a store that waits, fails and panics, over real sockets: what the
//! memory store never does. What it does is in `tests/serve` and `tests/wire`.

use super::{Door, Patience, start_workers};
use crate::config::parse_rules;
use crate::front::rls::RateLimitService;
use crate::fuzzing::options;
use crate::proto::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use crate::proto::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use crate::proto::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use crate::proto::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use crate::ruleset::Ruleset;
use crate::service::Service;
use crate::storage::{OnError, Storage};
use hivemind_core::store::{
    Charge, Context, KeySeed, LocalStore, MemoryStore, Store, StoreError, StoreOptions, Verdicts,
};
use hivemind_core::{Clock, SystemClock};
use hivemind_telemetry::Stats;
use hivemind_tls::socket::Socket;
use hivemind_tls::workers::Ended;
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

/// Does what the value of the first entry says; a decision that waits is let go by a permit.
struct Moody {
    memory: MemoryStore,
    permits: Semaphore,
    /// Told when a decision begins to wait.
    waits: Notify,
}

impl Moody {
    fn mood<'a>(batch: &[Charge<'a>]) -> &'a str {
        batch.first().and_then(|charge| charge.parts.entries.first()).map_or("", |(_, value)| value)
    }
}

impl Store for Moody {
    async fn decide(&self, batch: &[Charge<'_>], context: Context) -> Result<Verdicts, StoreError> {
        match Self::mood(batch) {
            "fails" => return Err(StoreError::Unreachable { reason: "no route".into() }),
            // All that is granted is used up.
            "late" => {
                let granted = context.deadline.unwrap().since(SystemClock.now());
                let _ = tokio::time::timeout(granted, std::future::pending::<()>()).await;
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
        assert!(context.deadline.is_some(), "whoever waits is told until when");
        Ok(self.memory.decide_now(batch, context))
    }

    fn try_decide(&self, batch: &[Charge<'_>], context: Context) -> Option<Verdicts> {
        match Self::mood(batch) {
            "panics" => panic!("on purpose"),
            "" | "calm" => Some(self.memory.decide_now(batch, context)),
            _ => None,
        }
    }

    async fn forget(&self, _: &Charge<'_>) -> Result<(), StoreError> {
        Ok(())
    }
}

struct Running {
    address: SocketAddr,
    store: Arc<Moody>,
    stop: watch::Sender<bool>,
    ended: Ended,
}

impl Running {
    /// One thread, so that whatever blocks it blocks everybody.
    async fn start(call: Duration) -> Self {
        Self::start_with(call, LONG).await
    }

    async fn start_with(call: Duration, ping: Duration) -> Self {
        let memory = MemoryStore::new(StoreOptions::default());
        let store = Arc::new(Moody { memory, permits: Semaphore::new(0), waits: Notify::new() });
        let options = crate::service::Options { dynamic_metadata: false, ..options() };
        let seed = KeySeed::random();
        let own = MemoryStore::new(StoreOptions::default());
        let storage = Storage::shared(Arc::clone(&store), own, OnError::Closed);
        storage.meet();
        let service =
            Service::new(Ruleset::default(), Arc::new(storage), seed, options, Arc::<Stats>::default());
        service.reload(parse_rules("rules", RULES).unwrap().ruleset);
        let service = RateLimitService(Arc::new(service));
        let (stop, stopped) = watch::channel(false);
        let patience = Patience { handshake: LONG, call, idle: LONG, age: LONG, ping, pong: ping };
        let routes = tonic::service::Routes::default();
        let started =
            start_workers(NonZeroUsize::MIN, &service, &routes, &Door::default(), patience, &stopped).await;
        let (workers, ended) = started.unwrap();
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let places = Arc::new(Semaphore::new(10));
            let mut stopped = stopped;
            loop {
                tokio::select! {
                    _ = stopped.changed() => return,
                    accepted = listener.accept() => {
                        let place = Arc::clone(&places).try_acquire_owned().unwrap();
                        workers.deal(Socket::try_from(accepted.unwrap().0).unwrap(), place);
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

fn asked(mood: &str) -> RateLimitRequest {
    let entries = vec![Entry { key: "k".into(), value: mood.into() }];
    let descriptors = vec![RateLimitDescriptor { entries, ..RateLimitDescriptor::default() }];
    RateLimitRequest { domain: "d".into(), descriptors, hits_addend: 0 }
}

async fn ask(client: &RateLimitServiceClient<Channel>, mood: &str) -> Result<RateLimitResponse, Status> {
    let call =
        async |mut client: RateLimitServiceClient<Channel>| client.should_rate_limit(asked(mood)).await;
    let answered = tokio::time::timeout(LONG, call(client.clone())).await.expect("an answer in time");
    answered.map(tonic::Response::into_inner)
}

fn left(answer: &RateLimitResponse) -> u32 {
    answer.statuses[0].limit_remaining
}

/// Seen failing with the decision awaited in the connection's own task.
#[tokio::test]
async fn a_decision_that_waits_holds_up_neither_its_connection_nor_its_core() {
    let running = Running::start(LONG).await;
    let (same, other) = (running.client().await, running.client().await);
    let waiting = tokio::spawn({
        let client = same.clone();
        async move { ask(&client, "waits").await }
    });
    running.store.waits.notified().await;
    for spent in 0..10 {
        assert_eq!(left(&ask(&same, "calm").await.unwrap()), 99 - spent);
        assert_eq!(left(&ask(&other, "").await.unwrap()), 99 - spent);
    }
    assert!(!waiting.is_finished());
    running.store.permits.add_permits(1);
    assert_eq!(left(&waiting.await.unwrap().unwrap()), 99);
}

#[tokio::test]
async fn a_decision_that_waits_too_long_is_given_up() {
    let running = Running::start(Duration::from_millis(50)).await;
    let client = running.client().await;
    let error = ask(&client, "waits").await.unwrap_err();
    assert_eq!(error.code(), Code::DeadlineExceeded, "{error}");
    assert_eq!(left(&ask(&client, "calm").await.unwrap()), 99);
}

#[tokio::test]
async fn where_a_store_cannot_be_reached_the_policy_answers() {
    let running = Running::start(LONG).await;
    let answer = ask(&running.client().await, "fails").await.unwrap();
    assert_eq!(answer.overall_code, 2, "OVER_LIMIT: {answer:?}");
    assert_eq!(answer.statuses[0].duration_until_reset.unwrap().seconds, 1);
}

/// Seen failing with more than the caller's time granted to the store.
#[tokio::test]
async fn a_store_is_granted_a_little_less_than_the_caller_waits() {
    let running = Running::start(LONG).await;
    let mut request = tonic::Request::new(asked("late"));
    request.set_timeout(Duration::from_secs(2));
    let mut client = running.client().await;
    let answer = client.should_rate_limit(request).await.expect("the policy's answer").into_inner();
    assert_eq!(answer.overall_code, 2, "OVER_LIMIT: {answer:?}");
}

/// Seen failing (the second call) without either of the two nets.
#[tokio::test]
async fn a_panic_ends_its_call_and_nothing_else() {
    let running = Running::start(LONG).await;
    let client = running.client().await;
    let calm = tokio::spawn({
        let client = client.clone();
        async move { ask(&client, "waits").await }
    });
    let at_once = ask(&client, "panics").await.unwrap_err();
    assert_eq!(at_once.code(), Code::Internal, "{at_once}");
    let later = ask(&client, "panics later").await.unwrap_err();
    assert_ne!(later.code(), Code::Ok);
    assert_eq!(left(&ask(&client, "calm").await.unwrap()), 99);
    running.store.permits.add_permits(1);
    assert_eq!(left(&calm.await.unwrap().unwrap()), 99);
}

#[tokio::test]
async fn a_drain_waits_for_a_decision_that_waits() {
    let running = Running::start(LONG).await;
    let client = running.client().await;
    ask(&client, "calm").await.unwrap();
    let waiting = tokio::spawn(async move { ask(&client, "waits").await });
    running.store.waits.notified().await;
    running.stop.send_replace(true);
    running.store.permits.add_permits(1);
    assert_eq!(left(&waiting.await.unwrap().unwrap()), 99);
    tokio::time::timeout(LONG, running.ended.wait()).await.expect("the threads end");
}

/// Seen failing with a minute between the pings.
#[tokio::test]
async fn a_peer_that_does_not_answer_a_ping_is_cut_off() {
    let running = Running::start_with(LONG, Duration::from_millis(50)).await;
    let mut silent = TcpStream::connect(running.address).await.unwrap();
    silent.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00").await.unwrap();
    let mut heard = Vec::new();
    let ended = tokio::time::timeout(LONG, silent.read_to_end(&mut heard)).await;
    ended.expect("the end of the connection").ok();
    // A frame of 8 bytes and kind 6: it was asked.
    assert!(heard.windows(4).any(|bytes| bytes == [0, 0, 8, 6]), "{heard:?}");
}
