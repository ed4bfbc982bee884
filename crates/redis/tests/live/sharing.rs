//! Several nodes on one limit, at once: exactly the limit passes, never one more.

use crate::server::{SOON, Server};
use crate::stores::{Lent, charge, now, runtime, store};
use hivemind_core::store::{Charge, Context, Op, Parts, Store};
use hivemind_core::testing::block_on;
use hivemind_core::{Clock, Limit, Period, Rate, SystemClock};
use hivemind_redis::{ClockSource, LeaseOptions, RedisOptions};
use std::time::Duration;

fn options(server: &Server) -> RedisOptions {
    let mut options = RedisOptions::new(server.url());
    options.clock = ClockSource::Caller;
    options.timeout = Duration::from_secs(10);
    options
}

fn present() -> Context {
    Context::at(SystemClock.now())
}

/// Asks `times` from each store, on a thread each with a runtime of its own, and counts what passes.
fn admitted(stores: &[Lent], limits: &[Limit], times: usize, at: fn() -> Context) -> usize {
    let entries = [("client", "one")];
    let parts = Parts { domain: "shared", entries: &entries };
    std::thread::scope(|scope| {
        let asking = stores.iter().map(|store| {
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(async {
                    let batch: Vec<Charge<'_>> =
                        limits.iter().map(|limit| charge(parts, limit, Op::Spend, 1)).collect();
                    let asked = (0..times).map(|_| store.decide(&batch, at()));
                    let mut asked: Vec<_> = asked.map(Box::pin).collect();
                    let mut passed = 0;
                    // All are under way before the first is answered.
                    let first = std::future::poll_fn(|context| {
                        asked.retain_mut(|one| match one.as_mut().poll(context) {
                            std::task::Poll::Ready(decided) => {
                                passed += usize::from(decided.unwrap().committed);
                                false
                            }
                            std::task::Poll::Pending => true,
                        });
                        if asked.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
                    });
                    first.await;
                    passed
                })
            })
        });
        asking.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

// Fails when one unit more than there is fits, in the script.
#[test]
fn two_and_four_nodes_admit_exactly_the_limit() {
    let (server, runtime) = (Server::on_socket(&[]), runtime());
    for nodes in [1, 2, 4] {
        for limit in [
            Limit::fixed_window(100, Period::HOUR),
            Limit::sliding_window(100, Period::HOUR),
            Limit::token_bucket(Rate::new(1, Period::HOUR).unwrap(), 100).unwrap(),
        ] {
            server.cli(&["flushall"]);
            let stores: Vec<_> = (0..nodes).map(|_| store(options(&server), &runtime)).collect();
            assert_eq!(admitted(&stores, &[limit], 128, now), 100, "{nodes} nodes, {limit}");
        }
    }
}

// Fails when one unit more than there is fits, in the script; a node asks for a slice with each request.
#[test]
fn leases_admit_exactly_the_limit_once_returned() {
    let (server, runtime) = (Server::on_socket(&[]), runtime());
    let mut options = options(&server);
    options.clock = ClockSource::Server;
    options.lease = Some(LeaseOptions::new(10, Duration::from_millis(200)));
    let stores: Vec<_> = (0..4).map(|_| store(options.clone(), &runtime)).collect();
    let limit = Limit::fixed_window(1_000, Period::DAY);
    let first = admitted(&stores, &[limit], 200, present);
    assert!(first <= 800);
    // Ask on and on: what was held unspent comes back, until the last unit is spent.
    let mut all = first;
    let begun = SystemClock.now();
    while all < 1_000 {
        all += admitted(&stores, &[limit], 10, present);
        assert!(SystemClock.now().since(begun) < SOON, "only {all} of 1000");
    }
    assert_eq!(all, 1_000);
    assert_eq!(admitted(&stores, &[limit], 50, present), 0);
    let leased: u64 = stores.iter().map(|store| store.0.metrics().admitted_from_lease).sum();
    assert!(leased > 0, "some were decided without asking");
}

#[test]
fn refused_client_is_refused_from_cache_until_it_has_room() {
    let (server, runtime) = (Server::on_socket(&[]), runtime());
    let store = store(options(&server), &runtime);
    let limit = Limit::fixed_window(1, Period::HOUR);
    let entries = [("client", "two")];
    let parts = Parts { domain: "over", entries: &entries };
    let spend = [charge(parts, &limit, Op::Spend, 1)];
    let ask = |batch: &[Charge<'_>]| block_on(store.decide(batch, now())).unwrap().committed;
    assert!(ask(&spend));
    assert!(!ask(&spend));
    let asked = store.0.metrics().round_trips;
    for _ in 0..100 {
        assert!(!store.try_decide(&spend, now()).expect("it is known").committed);
    }
    assert_eq!(store.0.metrics().round_trips, asked);
    assert_eq!(store.0.metrics().refused_from_cache, 100);
    // What is given back here is known here at once: all that was refused had been counted.
    assert!(ask(&[charge(parts, &limit, Op::Refund, 102)]));
    assert!(ask(&spend));
    // As is a limit that was raised.
    let raised = Limit::fixed_window(1_000, Period::HOUR);
    assert!(!ask(&spend));
    assert!(ask(&[charge(parts, &raised, Op::Spend, 1)]));
}
