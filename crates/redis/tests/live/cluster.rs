//! A cluster of three nodes: conformance, batches that span slots, and moved slots.

use crate::server::{Server, free_port};
use crate::stores::{Lent, charge, now, runtime, store};
use hivemind_core::store::{Charge, Op, Parts, Store};
use hivemind_core::testing::{block_on, conforms};
use hivemind_core::{Limit, Period};
use hivemind_redis::{Options, Time, Topology};
use std::time::Duration;

struct Cluster {
    nodes: Vec<Server>,
}

impl Cluster {
    fn new() -> Self {
        let nodes: Vec<_> = (0..3)
            .map(|_| {
                Server::on_port(|port, _| {
                    let bus = free_port().to_string();
                    let port = port.to_string();
                    ["--port", &port, "--cluster-port", &bus, "--cluster-enabled", "yes"]
                        .into_iter()
                        .chain(["--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no"])
                        .map(str::to_owned)
                        .collect()
                })
            })
            .collect();
        for (node, slots) in nodes.iter().zip([["0", "5460"], ["5461", "10922"], ["10923", "16383"]]) {
            assert_eq!(node.cli(&["cluster", "addslotsrange", slots[0], slots[1]]), "OK");
        }
        for (epoch, node) in nodes.iter().enumerate() {
            node.cli(&["cluster", "set-config-epoch", &(epoch + 1).to_string()]);
            let (port, bus) = (node.port().to_string(), node.cli(&["config", "get", "cluster-port"]));
            let bus = bus.lines().last().unwrap();
            assert_eq!(nodes[0].cli(&["cluster", "meet", "127.0.0.1", &port, bus]), "OK");
        }
        for node in &nodes {
            node.says(&["cluster", "slots"], |told| told.matches("127.0.0.1").count() == 3);
            node.says(&["cluster", "info"], |told| told.contains("cluster_state:ok"));
        }
        Self { nodes }
    }

    fn options(&self) -> Options {
        let mut options = Options::default();
        options.nodes = self.nodes.iter().map(Server::url).collect();
        options.topology = Topology::Cluster;
        options.clock = Time::Ours;
        options.timeout = Duration::from_secs(10);
        options
    }
}

fn spend<'a>(parts: Parts<'a>, limit: &'a Limit) -> Charge<'a> {
    charge(parts, limit, Op::Spend, 1)
}

#[test]
fn a_cluster_decides_like_the_model() {
    let (cluster, runtime) = (Cluster::new(), runtime());
    let store = store(cluster.options(), &runtime);
    conforms(|| store.clone());
}

/// What is left of a limit, without asking the cache.
fn left(store: &Lent, parts: Parts<'_>, limit: &Limit) -> u64 {
    let look = charge(parts, limit, Op::Peek, 1);
    block_on(store.decide(&[look], now())).unwrap().each()[0].remaining
}

// Seen failing on: nothing is given back; all of a batch is taken without a look at the other slots.
#[test]
fn a_batch_that_spans_slots_is_taken_whole_or_given_back() {
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
    assert!(store.0.figures().given_back >= 2);
}

#[test]
fn nodes_that_span_slots_at_once_admit_no_more_than_the_limit() {
    let (cluster, runtime) = (Cluster::new(), runtime());
    let stores: Vec<_> = (0..2).map(|_| store(cluster.options(), &runtime)).collect();
    let entries = [("client", "two")];
    let domains = ["a", "b", "c"].map(|domain| Parts { domain, entries: &entries });
    let limits = [40, 25, 40].map(|requests| Limit::fixed_window(requests, Period::HOUR));
    let batch: Vec<_> = domains.into_iter().zip(&limits).map(|(parts, limit)| spend(parts, limit)).collect();
    let passed: usize = std::thread::scope(|scope| {
        let ask = |store: &Lent| (0..30).filter(|_| block_on(store.decide(&batch, now())).unwrap().committed).count();
        let asking: Vec<_> = stores.iter().map(|store| scope.spawn(move || ask(store))).collect();
        asking.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    // A batch that is given back may have kept another out, so it may be fewer: never more.
    assert!(passed <= 25, "{passed} of 25");
    assert!(passed >= 20, "{passed} of 25");
}
