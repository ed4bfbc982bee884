//! Threads on three nodes while frames and ticks go on: fast-path decisions are made outside the node, batches and
//! requests to owners by it. Together they never admit more than the limit.
#![expect(clippy::unwrap_used, reason = "test helpers may panic")]

use hivemind_core::store::{Charge, Context, Key, Parts, Sharing, Store, Verdicts};
use hivemind_core::{Limit, Period, Rate, Timestamp};
use hivemind_mesh::testing::mesh_nodes;
use hivemind_mesh::{Carrier, Consistency, Lane, MeshOptions, MeshStore, NodeId, OnUnreachable};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as TaskContext, Poll, Waker};
use std::thread;
use std::time::Duration;

const NODES: usize = 3;
const THREADS: usize = 6;
const REQUESTS: u64 = 30_000;
const BUDGET: u32 = 120_000;
/// An hour past midnight: the test and the slewed clocks stay within one day.
const START: u64 = 1_699_923_600_000_000_000;

/// Frames in transit: sender, receiver, bytes.
type Mail = Mutex<Vec<(NodeId, NodeId, Vec<u8>)>>;

struct Post {
    name: NodeId,
    mail: Arc<Mail>,
}

impl Carrier for Post {
    fn carry(&self, to: &NodeId, _: Lane, frame: Vec<u8>) {
        self.mail.lock().unwrap().push((self.name.clone(), to.clone(), frame));
    }
}

struct Mesh {
    stores: Vec<(NodeId, MeshStore<Post>)>,
    mail: Arc<Mail>,
    nanos: AtomicU64,
}

fn charge(key: u64, limit: &Limit) -> Charge<'_> {
    let key = Key::from_bits(key, key.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let parts = Parts { domain: "", entries: &[] };
    Charge::spend(key, parts, limit)
}

impl Mesh {
    fn new() -> Self {
        let mail = Arc::new(Mail::default());
        // A thread with frames may be suspended while time passes, so that senders seem unreachable. With `share`,
        // admissions beyond the limit would then be allowed.
        let options = MeshOptions { on_unreachable: OnUnreachable::Refuse, ..MeshOptions::default() };
        let nodes = mesh_nodes(NODES, &options, Timestamp::from_nanos(START));
        let stores = nodes.into_iter().map(|node| {
            let name = node.member().id.clone();
            (name.clone(), MeshStore::new(node, Post { name, mail: Arc::clone(&mail) }))
        });
        Self { stores: stores.collect(), mail: Arc::clone(&mail), nanos: AtomicU64::new(START) }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.nanos.load(Ordering::Relaxed))
    }

    /// Delivers all frames, and lets a millisecond pass.
    fn turn(&self) {
        let mail = std::mem::take(&mut *self.mail.lock().unwrap());
        for (from, to, frame) in mail {
            let (_, store) = self.stores.iter().find(|(name, _)| *name == to).unwrap();
            store.on_frame(self.now(), &from, &frame);
        }
        self.nanos.fetch_add(1_000_000, Ordering::Relaxed);
        for (_, store) in &self.stores {
            store.on_tick(self.now());
        }
    }

    /// Decides. A thread that waits delivers frames meanwhile.
    fn decide(&self, node: usize, batch: &[Charge<'_>]) -> Verdicts {
        let (_, store) = self.stores.get(node).unwrap();
        if let Some(verdicts) = store.try_decide(batch, Context::at(self.now())) {
            return verdicts;
        }
        let mut waits = pin!(store.decide(batch, Context::at(self.now())));
        loop {
            match waits.as_mut().poll(&mut TaskContext::from_waker(Waker::noop())) {
                Poll::Ready(decided) => return decided.unwrap(),
                Poll::Pending => self.turn(),
            }
        }
    }
}

/// The admissions of all threads together.
fn admitted(limit: &Limit) -> u64 {
    let (mesh, admitted, running) = (Mesh::new(), AtomicU64::new(0), AtomicUsize::new(THREADS));
    thread::scope(|scope| {
        for number in 0..THREADS {
            let (mesh, admitted, running, limit) = (&mesh, &admitted, &running, limit);
            scope.spawn(move || {
                let second = Limit::fixed_window(u32::MAX, Period::DAY);
                for request in 0..REQUESTS {
                    // Every third request has a second limit, so the node decides it.
                    let both = [charge(1, limit), charge(2, &second)];
                    let batch = if request % 3 == 0 { &both[..] } else { &both[..1] };
                    let passed = mesh.decide(number % NODES, batch).committed;
                    admitted.fetch_add(u64::from(passed), Ordering::Relaxed);
                }
                running.fetch_sub(1, Ordering::Release);
            });
        }
        while running.load(Ordering::Acquire) > 0 {
            mesh.turn();
            thread::yield_now();
        }
    });
    assert!(mesh.now().as_nanos() - START < Period::DAY.nanos(), "it is one window");
    admitted.into_inner()
}

// Fails when a batch is tried while others spend from its counters.
#[test]
fn threads_on_three_nodes_admit_at_most_the_limit() {
    let limits = [
        Limit::fixed_window(BUDGET, Period::DAY),
        Limit::sliding_window(BUDGET, Period::DAY),
        Limit::token_bucket(Rate::new(1, Period::DAY).unwrap(), BUDGET).unwrap(),
    ];
    for limit in limits {
        let admitted = admitted(&limit);
        assert!(admitted <= u64::from(BUDGET), "{limit}: {admitted} of {BUDGET}");
        assert!(admitted >= u64::from(BUDGET) * 9 / 10, "{limit}: only {admitted} of {BUDGET}");
    }
}

// Fails when counters of local limits are behind the node's lock.
#[test]
fn local_limit_is_decided_while_the_node_is_busy() {
    let (mesh, limit) = (Mesh::new(), Limit::fixed_window(2, Period::DAY));
    let (_, store) = mesh.stores.first().unwrap();
    let local = Sharing { consistency: Some(Consistency::Local), ..Sharing::default() };
    let batch = [Charge { sharing: local, ..charge(3, &limit) }];
    let now = mesh.now();
    let (said, heard) = std::sync::mpsc::channel();
    let decided = thread::scope(|scope| {
        store.with(|_| {
            let batch = &batch;
            scope.spawn(move || {
                for _ in 0..3 {
                    let verdicts = store.try_decide(batch, Context::at(now));
                    let _ = said.send(verdicts.map(|verdicts| verdicts.committed));
                }
            });
            (0..3).map(|_| heard.recv_timeout(Duration::from_secs(10)).ok().flatten()).collect::<Vec<_>>()
        })
    });
    assert_eq!(decided, [Some(true), Some(true), Some(false)]);
}
