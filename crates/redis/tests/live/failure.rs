//! Redis away, in every way: no call waits longer than it may, and it is found again.

use crate::server::{SOON, Server};
use crate::stores::{Lent, charge, comes_up, now, runtime, store};
use hivemind_core::store::{Charge, Context, Op, Parts, Store, StoreError};
use hivemind_core::{Clock, Limit, Period, SystemClock, Timestamp};
use hivemind_redis::{Availability, Options, OptionsError, Password, RedisStore, Topology};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_millis(200);
/// What a busy machine may add to a wait.
const BUSY: Duration = Duration::from_millis(400);

const ENTRIES: &[(&str, &str)] = &[("client", "one")];
const PARTS: Parts<'static> = Parts { domain: "failure", entries: ENTRIES };

fn options(server: &Server, timeout: Duration) -> Options {
    let mut options = Options::new(server.url());
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

/// Asks until it is answered otherwise, and tells the longest wait.
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
    let down = availability.wait_for(|told| matches!(told, Availability::Down { .. }));
    tokio::time::timeout(SOON, down).await.expect("it is seen soon").unwrap();
}

#[test]
fn a_paused_redis_costs_no_call_more_than_the_time_out_and_then_nothing() {
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
        assert!(SystemClock.now().since(begun) < BUSY * 2, "nobody asks any more");
        assert!(store.0.figures().breaker_openings >= 1);
        server.signal("CONT");
        comes_up(&store.0).await;
        ask_until(&store, |answer| *answer == Ok(true)).await;
    });
}

#[test]
fn a_killed_redis_is_found_again_when_it_is_back() {
    let (mut server, runtime) = (Server::on_socket(&[]), runtime());
    let store = store(options(&server, PATIENCE), &runtime);
    runtime.block_on(async {
        ask_until(&store, |answer| *answer == Ok(true)).await;
        server.kill();
        let longest = ask_until(&store, |_| !store.0.is_available()).await;
        assert!(longest <= PATIENCE + BUSY, "{longest:?}");
        server.start_again();
        comes_up(&store.0).await;
        ask_until(&store, |answer| *answer == Ok(true)).await;
    });
}

#[test]
fn an_idle_store_sees_that_redis_is_gone() {
    let (mut server, runtime) = (Server::on_socket(&[]), runtime());
    let store = store(Options::new(server.url()), &runtime);
    server.kill();
    runtime.block_on(goes_down(&store));
    assert!(!store.0.is_available());
}

#[test]
fn a_store_starts_without_redis_and_takes_it_up_when_it_comes() {
    let (mut server, runtime) = (Server::on_socket(&[]), runtime());
    server.kill();
    let _ = std::fs::remove_file(server.socket());
    let store = Lent(RedisStore::start(Options::new(server.url()), runtime.handle()).unwrap().into());
    runtime.block_on(async {
        assert!(matches!(ask(&store).await, Err(StoreError::Unreachable { .. })));
        goes_down(&store).await;
        server.start_again();
        comes_up(&store.0).await;
        ask_until(&store, |answer| *answer == Ok(true)).await;
    });
}

#[test]
fn flushed_data_and_flushed_scripts_are_no_failure() {
    let (server, runtime) = (Server::on_socket(&[]), runtime());
    let store = store(options(&server, SOON), &runtime);
    for flush in [["flushall", "sync"], ["script", "flush"]] {
        assert_eq!(runtime.block_on(ask(&store)), Ok(true));
        server.cli(&flush);
        assert_eq!(runtime.block_on(ask(&store)), Ok(true), "{flush:?}");
    }
    assert_eq!(store.0.figures().errors, 0);
}

#[test]
fn a_callers_deadline_comes_before_the_time_out() {
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
        server.signal("CONT");
    });
}

#[test]
fn a_counter_of_another_type_fails_its_own_requests_alone() {
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
fn options_that_cannot_work_are_refused_with_their_remedy() {
    let runtime = runtime();
    let start = |options| RedisStore::start(options, runtime.handle()).unwrap_err();
    assert_eq!(start(Options::default()), OptionsError::NoNodes);
    assert_eq!(start(Options::new("http://:secret@redis.test")), OptionsError::Url { number: 1 });
    let mut several = Options::new("redis://a.test");
    several.nodes.push("redis://b.test".to_owned());
    assert_eq!(start(several), OptionsError::SeveralServers { count: 2 });
    let mut hasty = Options::new("redis://a.test");
    hasty.timeout = Duration::from_micros(10);
    assert_eq!(start(hasty), OptionsError::Timeout);
    let mut mixed = Options::new("redis+unix:///tmp/redis.sock");
    mixed.topology = Topology::Cluster;
    assert!(matches!(start(mixed), OptionsError::Unfit { .. }));
    let mut hidden = Options::new("redis://a.test");
    hidden.password = Some(Password::new("hunter2\n"));
    hidden.nodes.push("redis://ann:hunter2@b.test".to_owned());
    let shown = format!("{hidden:?}");
    assert!(shown.contains("b.test") && !shown.contains("hunter2"), "{shown}");
}
