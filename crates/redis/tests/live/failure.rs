//! Redis away, in every way: no call waits longer than it may, and it is found again.

use crate::server::{SOON, Server};
use crate::stores::{Lent, charge, comes_up, now, runtime, store};
use hivemind_core::store::{Charge, Context, Op, Parts, Store, StoreError};
use hivemind_core::{Clock, Limit, Period, SystemClock, Timestamp};
use hivemind_redis::{Availability, OptionsError, Password, RedisOptions, RedisStore, Topology};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_millis(200);
/// What a busy machine may add to a wait.
const BUSY: Duration = Duration::from_millis(400);

const ENTRIES: &[(&str, &str)] = &[("client", "one")];
const PARTS: Parts<'static> = Parts { domain: "failure", entries: ENTRIES };

fn options(server: &Server, timeout: Duration) -> RedisOptions {
    let mut options = RedisOptions::new(server.url());
    options.timeout = timeout;
    options
}

fn limit() -> Limit {
    Limit::fixed_window(u32::MAX, Period::HOUR)
}

fn spend(limit: &Limit) -> Charge<'_> {
    charge(PARTS, limit, Op::Spend, 1)
}

async fn ask(store: &Lent) -> Result<bool, StoreError> {
    let limit = limit();
    store.decide(&[spend(&limit)], now()).await.map(|verdicts| verdicts.committed)
}

/// Sends requests until one has the wanted result, and returns the longest wait.
async fn ask_until(store: &Lent, done: impl Fn(&Result<bool, StoreError>) -> bool) -> Duration {
    let (begun, mut longest) = (SystemClock.now(), Duration::ZERO);
    loop {
        let asked = SystemClock.now();
        let answer = ask(store).await;
        longest = longest.max(SystemClock.now().since(asked));
        if done(&answer) {
            return longest;
        }
        assert!(SystemClock.now().since(begun) < SOON, "still {answer:?}");
        tokio::task::yield_now().await;
    }
}

async fn goes_down(store: &Lent) {
    let mut availability = store.0.availability();
    let down = availability.wait_for(|state| matches!(state, Availability::Down { .. }));
    tokio::time::timeout(SOON, down).await.expect("it is seen soon").unwrap();
}

/// Waits until calls are sent again after Redis has recovered, and prints how long that took.
async fn found_again(store: &Lent, after: &str) {
    let answers = SystemClock.now();
    comes_up(&store.0).await;
    println!("found again: a Redis that {after}, {:?} after it answers", SystemClock.now().since(answers));
}

#[test]
fn paused_redis_costs_one_timeout_and_then_nothing() {
    let (server, runtime) = (Server::on_socket(&[]), runtime());
    let store = store(options(&server, PATIENCE), &runtime);
    runtime.block_on(async {
        ask_until(&store, |answer| *answer == Ok(true)).await;
        server.signal("STOP");
        let longest = ask_until(&store, |_| !store.0.is_available()).await;
        assert!(longest <= PATIENCE + BUSY, "{longest:?}");
        let begun = SystemClock.now();
        for _ in 0..10_000 {
            assert!(ask(&store).await.is_err());
        }
        assert!(SystemClock.now().since(begun) < BUSY * 2, "an open breaker sends no calls");
        assert!(store.0.metrics().breaker_openings >= 1);
        server.signal("CONT");
        found_again(&store, "stood still").await;
        ask_until(&store, |answer| *answer == Ok(true)).await;
    });
}

#[test]
fn store_reconnects_after_redis_is_killed_and_restarted() {
    let (mut server, runtime) = (Server::on_socket(&[]), runtime());
    let store = store(options(&server, PATIENCE), &runtime);
    runtime.block_on(async {
        ask_until(&store, |answer| *answer == Ok(true)).await;
        server.kill();
        let longest = ask_until(&store, |_| !store.0.is_available()).await;
        assert!(longest <= PATIENCE + BUSY, "{longest:?}");
        server.start_again();
        found_again(&store, "was killed and is started").await;
        ask_until(&store, |answer| *answer == Ok(true)).await;
    });
}

#[test]
fn idle_store_detects_lost_redis() {
    let (mut server, runtime) = (Server::on_socket(&[]), runtime());
    let store = store(RedisOptions::new(server.url()), &runtime);
    server.kill();
    runtime.block_on(goes_down(&store));
    assert!(!store.0.is_available());
}

#[test]
fn store_starts_without_redis_and_connects_later() {
    let (mut server, runtime) = (Server::on_socket(&[]), runtime());
    server.kill();
    let _ = std::fs::remove_file(server.socket());
    let store = Lent(RedisStore::start(RedisOptions::new(server.url()), runtime.handle()).unwrap().into());
    runtime.block_on(async {
        assert!(matches!(ask(&store).await, Err(StoreError::Unreachable { .. })));
        goes_down(&store).await;
        server.start_again();
        comes_up(&store.0).await;
        ask_until(&store, |answer| *answer == Ok(true)).await;
    });
}

#[test]
fn flushed_data_and_scripts_are_not_errors() {
    let (server, runtime) = (Server::on_socket(&[]), runtime());
    let store = store(options(&server, SOON), &runtime);
    for flush in [["flushall", "sync"], ["script", "flush"]] {
        assert_eq!(runtime.block_on(ask(&store)), Ok(true));
        server.cli(&flush);
        assert_eq!(runtime.block_on(ask(&store)), Ok(true), "{flush:?}");
    }
    assert_eq!(store.0.metrics().errors, 0);
}

#[test]
fn earlier_caller_deadline_ends_the_wait() {
    let (server, runtime) = (Server::on_socket(&[]), runtime());
    let store = store(options(&server, SOON), &runtime);
    let limit = limit();
    let due =
        |millis: u64| Context { deadline: Some(Timestamp::from_millis(1_700_000_000_000 + millis)), ..now() };
    runtime.block_on(async {
        assert!(store.decide(&[spend(&limit)], due(5_000)).await.is_ok());
        assert_eq!(store.decide(&[spend(&limit)], due(0)).await, Err(StoreError::DeadlinePassed));
        server.signal("STOP");
        let asked = SystemClock.now();
        assert_eq!(store.decide(&[spend(&limit)], due(30)).await, Err(StoreError::DeadlinePassed));
        assert!(SystemClock.now().since(asked) < BUSY * 4);
        assert_eq!(store.0.metrics().timeouts, 1);
        server.signal("CONT");
    });
}

#[test]
fn short_caller_deadlines_also_open_the_breaker() {
    let (server, runtime) = (Server::on_socket(&[]), runtime());
    let store = store(options(&server, PATIENCE), &runtime);
    let limit = limit();
    let due = || Context { deadline: Some(now().now.saturating_add(PATIENCE * 3 / 4)), ..now() };
    runtime.block_on(async {
        assert!(store.decide(&[spend(&limit)], due()).await.is_ok());
        server.signal("STOP");
        let begun = SystemClock.now();
        while store.decide(&[spend(&limit)], due()).await == Err(StoreError::DeadlinePassed) {
            assert!(SystemClock.now().since(begun) < SOON, "it is asked on and on");
        }
        assert!(!store.0.is_available() && store.0.metrics().timeouts > 0);
        server.signal("CONT");
    });
}

#[test]
fn key_of_wrong_type_fails_only_its_own_requests() {
    let (server, runtime) = (Server::on_socket(&[]), runtime());
    let store = store(options(&server, SOON), &runtime);
    server.cli(&["rpush", "hivemind:ratelimit:rls:{failure}:client=one:fixed-3600s", "x"]);
    runtime.block_on(async {
        for _ in 0..20 {
            assert!(ask(&store).await.is_err());
        }
        assert!(store.0.is_available(), "Redis itself is well");
        let (limit, entries) = (limit(), [("client", "two")]);
        let parts = Parts { domain: "failure", entries: &entries };
        assert!(store.decide(&[charge(parts, &limit, Op::Spend, 1)], now()).await.is_ok());
    });
}

#[test]
fn invalid_options_errors_name_the_remedy() {
    let runtime = runtime();
    let start = |options| RedisStore::start(options, runtime.handle()).unwrap_err();
    assert_eq!(start(RedisOptions::default()), OptionsError::NoNodes);
    assert_eq!(start(RedisOptions::new("http://:secret@redis.test")), OptionsError::Url { number: 1 });
    let mut several = RedisOptions::new("redis://a.test");
    several.nodes.push("redis://b.test".to_owned());
    assert_eq!(start(several), OptionsError::SeveralServers { count: 2 });
    let mut hasty = RedisOptions::new("redis://a.test");
    hasty.timeout = Duration::from_micros(10);
    assert_eq!(start(hasty), OptionsError::Timeout);
    let mut mixed = RedisOptions::new("redis+unix:///tmp/redis.sock");
    mixed.topology = Topology::Cluster;
    assert!(matches!(start(mixed), OptionsError::Unfit { .. }));
    let mut hidden = RedisOptions::new("redis://a.test");
    hidden.password = Some(Password::new("hunter2\n"));
    hidden.nodes.push("redis://ann:hunter2@b.test".to_owned());
    hidden.nodes.push("redis+unix:///s.sock?user=ann&pass=hunter2@hunter2".to_owned());
    hidden.nodes.push("redis://ann:hunter2@".to_owned());
    hidden.nodes.push("no URL, but hunter2".to_owned());
    let shown = format!("{hidden:?}");
    assert!(shown.contains("b.test") && shown.contains("/s.sock"), "{shown}");
    assert!(!shown.contains("hunter2"), "{shown}");
}

/// A proxy to a server that can silently drop the data of a connection.
struct DroppingProxy {
    port: u16,
    swallows: Arc<Mutex<Vec<Arc<AtomicBool>>>>,
}

impl DroppingProxy {
    fn before(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let swallows: Arc<Mutex<Vec<Arc<AtomicBool>>>> = Arc::default();
        let connections = Arc::clone(&swallows);
        std::thread::spawn(move || {
            for mut near in listener.incoming().map_while(Result::ok) {
                let swallowing = Arc::new(AtomicBool::new(false));
                connections.lock().unwrap().push(Arc::clone(&swallowing));
                let mut far = TcpStream::connect(("127.0.0.1", server)).unwrap();
                let (mut back, mut to) = (far.try_clone().unwrap(), near.try_clone().unwrap());
                std::thread::spawn(move || std::io::copy(&mut back, &mut to));
                std::thread::spawn(move || {
                    let mut bytes = [0; 4_096];
                    while let Ok(read @ 1..) = near.read(&mut bytes) {
                        if !swallowing.load(Ordering::Acquire) {
                            far.write_all(&bytes[..read]).unwrap();
                        }
                    }
                });
            }
        });
        Self { port, swallows }
    }
}

#[test]
fn black_hole_connection_is_replaced_and_others_continue() {
    let server = Server::on_port(|port, _| vec!["--port".to_owned(), port.to_string()]);
    let between = DroppingProxy::before(server.port());
    let runtimes = [runtime(), runtime()];
    let mut options = RedisOptions::new(format!("redis://127.0.0.1:{}", between.port));
    options.timeout = PATIENCE;
    let store = store(options, &runtimes[0]);
    assert_eq!(runtimes[0].block_on(ask(&store)), Ok(true));
    let before = between.swallows.lock().unwrap().len();
    assert_eq!(runtimes[1].block_on(ask(&store)), Ok(true));
    let of_second = between.swallows.lock().unwrap()[before..].to_vec();
    assert_eq!(of_second.len(), 1, "each runtime has a connection");
    of_second[0].store(true, Ordering::Release);
    let begun = SystemClock.now();
    let mut lost = 0;
    while runtimes[1].block_on(ask(&store)) != Ok(true) {
        lost += 1;
        assert_eq!(runtimes[0].block_on(ask(&store)), Ok(true), "the other one is well");
        assert!(SystemClock.now().since(begun) < SOON, "it is never replaced");
    }
    assert!(lost > 0 && store.0.metrics().breaker_openings == 0);
}
