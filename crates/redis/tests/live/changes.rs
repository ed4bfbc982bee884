//! What changes under a counter: it is deleted, its limit is changed, our clock is set.

use crate::server::Server;
use crate::stores::{Lent, charge, now, runtime, store};
use hivemind_core::store::{Charge, Context, Op, Parts, Store};
use hivemind_core::testing::block_on;
use hivemind_core::{Limit, Period, Rate, Timestamp};
use hivemind_redis::{ClockSource, LeaseOptions, RedisOptions};
use std::time::Duration;

const ENTRIES: &[(&str, &str)] = &[("client", "one")];
const PARTS: Parts<'static> = Parts { domain: "changes", entries: ENTRIES };

fn options(server: &Server) -> RedisOptions {
    let mut options = RedisOptions::new(server.url());
    options.clock = ClockSource::Caller;
    options.timeout = Duration::from_secs(10);
    options
}

fn at(millis: i64) -> Context {
    let millis = 1_700_000_000_000 + millis;
    Context::at(Timestamp::from_millis(millis.try_into().unwrap()))
}

fn passes(store: &Lent, batch: &[Charge<'_>], at: Context) -> bool {
    block_on(store.decide(batch, at)).unwrap().committed
}

// Fails when hits that are owed are counted on a counter that is not there any more.
#[test]
fn owed_hits_are_dropped_when_counter_was_deleted() {
    let (server, runtime) = (Server::on_socket(&[]), runtime());
    let store = store(options(&server), &runtime);
    let limit = Limit::fixed_window(5, Period::DAY);
    let spend = [charge(PARTS, &limit, Op::Spend, 1)];
    for (round, flush) in
        [&["del", "hivemind:ratelimit:rls:{changes}:client=one:fixed-86400s"], &["flushall", "sync"]]
            .into_iter()
            .enumerate()
    {
        let begun = i64::try_from(round).unwrap() * 10_000;
        let passed = (0..500).filter(|n| passes(&store, &spend, at(begun + n % 2))).count();
        assert_eq!(passed, 5);
        assert!(store.0.metrics().refused_from_cache >= 400, "most of it is owed");
        server.cli(flush);
        // What is known is believed for a second.
        let passed = (0..10).filter(|n| passes(&store, &spend, at(begun + 2_000 + n))).count();
        assert_eq!(passed, 5, "{flush:?}");
        server.cli(flush);
    }
}

// Fails when only a state that changed is given a new time to live.
#[test]
fn bucket_with_lowered_rate_is_kept_until_full() {
    let (server, runtime) = (Server::on_socket(&[]), runtime());
    let mut options = options(&server);
    options.over_cache = false;
    let store = store(options, &runtime);
    let [fast, slow] = [Period::SECOND, Period::DAY]
        .map(|per| Limit::token_bucket(Rate::new(10, per).unwrap(), 10).unwrap());
    let pttl = || -> i64 {
        server.cli(&["pttl", "hivemind:ratelimit:rls:{changes}:client=one:bucket"]).parse().unwrap()
    };
    assert!(passes(&store, &[charge(PARTS, &fast, Op::Spend, 10)], now()));
    assert!((0..=61_001).contains(&pttl()), "{}", pttl());
    assert!(!passes(&store, &[charge(PARTS, &slow, Op::Spend, 1)], now()));
    assert!(pttl() > 86_300_000, "{}", pttl());
    // The faster one does not take it back.
    assert!(!passes(&store, &[charge(PARTS, &fast, Op::Spend, 1)], now()));
    assert!(pttl() > 86_300_000, "{}", pttl());
}

// Fails when what is known is believed until its end, however early our clock says it is.
#[test]
fn clock_set_back_expires_cached_states_and_leases() {
    let (server, runtime) = (Server::on_socket(&[]), runtime());
    let mut options = options(&server);
    options.clock = ClockSource::Server;
    options.lease = Some(LeaseOptions::new(10, Duration::from_secs(60)));
    let store = store(options, &runtime);
    let limit = Limit::fixed_window(1_000, Period::DAY);
    let spend = [charge(PARTS, &limit, Op::Spend, 1)];
    for moment in [at(0), at(1)] {
        assert!(passes(&store, &spend, moment));
    }
    assert!(store.try_decide(&spend, at(2)).is_some(), "it is leased");
    assert!(store.try_decide(&spend, at(-3_600_000)).is_none(), "an hour earlier");
    let one = Limit::fixed_window(1, Period::HOUR);
    let spend = [charge(PARTS, &one, Op::Spend, 1)];
    assert!(passes(&store, &spend, at(0)));
    assert!(!passes(&store, &spend, at(1)));
    assert!(store.try_decide(&spend, at(2)).is_some(), "it is known to be over");
    assert!(store.try_decide(&spend, at(-3_600_000)).is_none(), "an hour earlier");
}

// Fails when a counter that was asked for once counts as leased.
#[test]
fn zero_cost_charge_without_lease_reaches_redis() {
    let (server, runtime) = (Server::on_socket(&[]), runtime());
    let mut options = options(&server);
    options.lease = Some(LeaseOptions::new(10, Duration::from_secs(60)));
    let store = store(options, &runtime);
    let limit = Limit::fixed_window(4, Period::DAY);
    assert!(passes(&store, &[charge(PARTS, &limit, Op::Spend, 3)], now()));
    let free = [charge(PARTS, &limit, Op::Spend, 0)];
    let verdicts = block_on(store.decide(&free, now())).unwrap();
    assert_eq!(verdicts.each()[0].remaining, 1);
}
