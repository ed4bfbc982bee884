//! A cluster of three nodes: conformance, batches that span slots, and moved slots.

use crate::server::{SOON, Server, free_port};
use crate::stores::{Lent, charge, now, runtime, store};
use hivemind_core::store::{Charge, Context, Op, Parts, Store};
use hivemind_core::testing::{block_on, conforms};
use hivemind_core::{Clock, Limit, Period, Rate, SystemClock};
use hivemind_redis::{ClockSource, RedisOptions, Topology};
use std::time::Duration;

struct Cluster {
    nodes: Vec<Server>,
}

impl Cluster {
    /// A node that belongs to no cluster yet.
    fn node() -> Server {
        Server::on_port(|port, _| {
            let (port, bus) = (port.to_string(), free_port().to_string());
            ["--port", &port, "--cluster-port", &bus, "--cluster-enabled", "yes"]
                .into_iter()
                .chain(["--cluster-node-timeout", "1000", "--cluster-require-full-coverage", "no"])
                .map(str::to_owned)
                .collect()
        })
    }

    fn new() -> Self {
        let nodes: Vec<_> = (0..3).map(|_| Self::node()).collect();
        for (node, slots) in nodes.iter().zip([["0", "5460"], ["5461", "10922"], ["10923", "16383"]]) {
            assert_eq!(node.cli(&["cluster", "addslotsrange", slots[0], slots[1]]), "OK");
        }
        for (epoch, node) in nodes.iter().enumerate() {
            node.cli(&["cluster", "set-config-epoch", &(epoch + 1).to_string()]);
            meet(&nodes[0], node);
        }
        for node in &nodes {
            node.says(&["cluster", "slots"], |output| output.matches("127.0.0.1").count() == 3);
            node.says(&["cluster", "info"], |output| output.contains("cluster_state:ok"));
        }
        Self { nodes }
    }

    fn options(&self) -> RedisOptions {
        let mut options = RedisOptions::default();
        options.nodes = self.nodes.iter().map(Server::url).collect();
        options.topology = Topology::Cluster;
        options.clock = ClockSource::Caller;
        options.timeout = Duration::from_secs(10);
        options
    }
}

fn meet(one: &Server, other: &Server) {
    let (port, bus) = (other.port().to_string(), other.cli(&["config", "get", "cluster-port"]));
    let bus = bus.lines().last().unwrap();
    assert_eq!(one.cli(&["cluster", "meet", "127.0.0.1", &port, bus]), "OK");
}

fn spend<'a>(parts: Parts<'a>, limit: &'a Limit) -> Charge<'a> {
    charge(parts, limit, Op::Spend, 1)
}

#[test]
fn cluster_decides_like_the_model() {
    let (cluster, runtime) = (Cluster::new(), runtime());
    let store = store(cluster.options(), &runtime);
    conforms(|| store.clone());
}

/// What is left of a limit, without asking the cache.
fn left(store: &Lent, parts: Parts<'_>, limit: &Limit) -> u64 {
    let look = charge(parts, limit, Op::Peek, 1);
    block_on(store.decide(&[look], now())).unwrap().each()[0].remaining
}

// Fails when nothing is given back.
#[test]
fn batch_over_slots_is_taken_whole_or_returned() {
    let (cluster, runtime) = (Cluster::new(), runtime());
    let store = store(cluster.options(), &runtime);
    let entries = [("client", "one")];
    // These domains are on three slots of three nodes.
    let domains = ["a", "b", "c"].map(|domain| Parts { domain, entries: &entries });
    let [wide, narrow] = [10, 2].map(|requests| Limit::fixed_window(requests, Period::HOUR));
    for slides in [false, true] {
        let kind = |limit: &Limit| {
            if slides { Limit::sliding_window(limit.requests(), Period::HOUR) } else { *limit }
        };
        let (wide, narrow) = (kind(&wide), kind(&narrow));
        let batch = [spend(domains[0], &wide), spend(domains[1], &narrow), spend(domains[2], &wide)];
        for (committed, rest) in [(true, 9), (true, 8), (false, 8), (false, 8)] {
            let verdicts = block_on(store.decide(&batch, now())).unwrap();
            assert_eq!(verdicts.committed, committed);
            assert_eq!(verdicts.each()[0].remaining, rest);
            assert_eq!([0, 2].map(|domain| left(&store, domains[domain], &wide)), [rest, rest]);
        }
        assert_eq!(left(&store, domains[1], &narrow), 0);
    }
    assert!(store.0.metrics().given_back >= 2);
}

// Fails when what was taken is given back to a bucket that has been full since.
#[test]
fn bucket_filled_meanwhile_gets_no_units_back() {
    let (cluster, runtime) = (Cluster::new(), runtime());
    let mut options = cluster.options();
    options.over_cache = false;
    let [store, other] = [0, 1].map(|_| store(options.clone(), &runtime));
    let entries = [("client", "three")];
    // By their slots: 15495 is the third node's, 3300 the first's.
    let [taken, full] = ["a", "b"].map(|domain| Parts { domain, entries: &entries });
    let (bucket, none) = (bucket(), Limit::fixed_window(0, Period::HOUR));
    for store in [&store, &other] {
        assert!(!block_on(store.decide(&[spend(full, &none)], now())).unwrap().committed, "it is connected");
    }
    // A token is earned in a second. Five are taken, and others spend when the bucket is full again, or before.
    for (round, (later_ms, others, left)) in
        [(10_000, 10, 0), (5_000, 10, 0), (0, 5, 5), (2_000, 7, 5), (2_000, 0, 12)].into_iter().enumerate()
    {
        let begun = now().now.saturating_add(Duration::from_secs(3_600) * u32::try_from(round).unwrap());
        let [begun, later] =
            [0, later_ms].map(|ms| Context::at(begun.saturating_add(Duration::from_millis(ms))));
        cluster.nodes[0].signal("STOP");
        let passed = std::thread::scope(|scope| {
            let batch = [charge(taken, &bucket, Op::Spend, 5), spend(full, &none)];
            let store = &store;
            let asking = scope.spawn(move || block_on(store.decide(&batch, begun)).unwrap().committed);
            let seen = SystemClock.now();
            let look = charge(taken, &bucket, Op::Peek, 1);
            while block_on(other.decide(&[look], begun)).unwrap().each()[0].remaining > 5 {
                assert!(SystemClock.now().since(seen) < SOON, "nothing is taken");
            }
            let spend = charge(taken, &bucket, Op::Spend, others);
            assert!(block_on(other.decide(&[spend], later)).unwrap().committed);
            cluster.nodes[0].signal("CONT");
            asking.join().unwrap()
        });
        assert!(!passed);
        let look = charge(taken, &bucket, Op::Peek, 1);
        let now_left = block_on(other.decide(&[look], later)).unwrap().each()[0].remaining;
        assert_eq!(now_left, left.min(10), "{others} spent after {later_ms} ms");
    }
}

#[test]
fn cancelled_batch_over_slots_returns_taken_units() {
    const ENTRIES: &[(&str, &str)] = &[("client", "four")];
    let (cluster, runtime) = (Cluster::new(), runtime());
    let mut options = cluster.options();
    options.over_cache = false;
    let [store, other] = [0, 1].map(|_| store(options.clone(), &runtime));
    let [taken, slow] = ["a", "b"].map(|domain| Parts { domain, entries: ENTRIES });
    let limit = Limit::fixed_window(10, Period::HOUR);
    for store in [&store, &other] {
        // Both connections are there, also the one that gives back.
        runtime.block_on(store.decide(&[charge(slow, &limit, Op::Refund, 1)], now())).unwrap();
    }
    cluster.nodes[0].signal("STOP");
    let asking = runtime.spawn(async move {
        let batch = [spend(taken, &limit), spend(slow, &limit)];
        store.decide(&batch, now()).await.map(drop)
    });
    let begun = SystemClock.now();
    for rest in [9, 10] {
        while left(&other, taken, &limit) != rest {
            assert!(SystemClock.now().since(begun) < SOON, "never {rest}");
        }
        // Redis has replied to the batch. Its task reads the reply while these calls make their round trips; units of
        // an unread reply are not given back (see `slots.rs`).
        for _ in 0..200 {
            left(&other, taken, &limit);
        }
        asking.abort();
    }
    cluster.nodes[0].signal("CONT");
}

fn bucket() -> Limit {
    Limit::token_bucket(Rate::per_second(1).unwrap(), 10).unwrap()
}

#[test]
fn concurrent_batches_over_slots_stay_within_the_limit() {
    let (cluster, runtime) = (Cluster::new(), runtime());
    let stores: Vec<_> = (0..2).map(|_| store(cluster.options(), &runtime)).collect();
    let entries = [("client", "two")];
    let domains = ["a", "b", "c"].map(|domain| Parts { domain, entries: &entries });
    let limits = [40, 25, 40].map(|requests| Limit::fixed_window(requests, Period::HOUR));
    let batch: Vec<_> = domains.into_iter().zip(&limits).map(|(parts, limit)| spend(parts, limit)).collect();
    let passed: usize = std::thread::scope(|scope| {
        let ask = |store: &Lent| {
            (0..30).filter(|_| block_on(store.decide(&batch, now())).unwrap().committed).count()
        };
        let asking: Vec<_> = stores.iter().map(|store| scope.spawn(move || ask(store))).collect();
        asking.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    // A batch that is given back may have kept another out, so it may be fewer: never more.
    assert!(passed <= 25, "{passed} of 25");
    assert!(passed >= 20, "{passed} of 25");
}

#[test]
fn lost_cluster_node_is_replaced_by_its_replica() {
    let mut cluster = Cluster::new();
    let replica = Cluster::node();
    meet(&cluster.nodes[0], &replica);
    let master = cluster.nodes[0].cli(&["cluster", "myid"]);
    replica.says(&["cluster", "nodes"], |output| output.contains(&master) && output.lines().count() == 4);
    replica.says(&["cluster", "replicate", &master], |output| output == "OK");
    replica.says(&["info", "replication"], |output| output.contains("master_link_status:up"));
    for node in &cluster.nodes {
        node.says(&["cluster", "slots"], |output| output.matches("127.0.0.1").count() == 4);
    }
    let runtime = runtime();
    let mut options = cluster.options();
    options.timeout = Duration::from_millis(500);
    let store = store(options, &runtime);
    let (limit, entries) = (Limit::fixed_window(u32::MAX, Period::HOUR), [("client", "three")]);
    // By their slots: 3300 is the first node's, 15495 the third's.
    let [lost, other] = ["b", "a"].map(|domain| Parts { domain, entries: &entries });
    let ask = |parts| {
        runtime.block_on(store.decide(&[spend(parts, &limit)], now())).map(|verdicts| verdicts.committed)
    };
    assert_eq!([ask(lost), ask(other)], [Ok(true), Ok(true)]);
    replica.says(&["keys", "*:rls:*"], |output| output.contains("{b}"));
    cluster.nodes[0].kill();
    let begun = SystemClock.now();
    let mut others = 0;
    while ask(lost) != Ok(true) {
        others += usize::from(ask(other) == Ok(true));
        assert!(SystemClock.now().since(begun) < SOON, "the replica is not found");
    }
    assert_eq!(ask(other), Ok(true));
    assert!(others > 0, "the other nodes' counters were decided meanwhile");
}
