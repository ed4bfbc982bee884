//! Conformance suite for stores: a single node, and three nodes over the codec and a simulated network, where the owner
//! decides everything. Both must decide like the pure algorithms.
#![expect(clippy::expect_used, reason = "test helpers may panic")]

use hivemind_core::Timestamp;
use hivemind_core::store::{Charge, Context, Store, StoreError, Verdicts};
use hivemind_core::testing::{conforms, oversized_costs_take_nothing};
use hivemind_mesh::testing::mesh_nodes;
use hivemind_mesh::{Carrier, Lane, MeshOptions, MeshStore, Node, NodeId};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};

struct NoCarrier;

impl Carrier for NoCarrier {
    fn carry(&self, _: &NodeId, _: Lane, _: Vec<u8>) {}
}

fn alone_with(options: MeshOptions) -> MeshStore<NoCarrier> {
    let mut node = Node::new(NodeId::new("alone"), 1, options, Timestamp::EPOCH);
    node.found(Timestamp::EPOCH);
    MeshStore::new(node, NoCarrier)
}

// Fails when a refused batch leaves nothing.
#[test]
fn single_node_decides_like_the_model() {
    conforms(|| alone_with(MeshOptions::default()));
}

/// Frames in transit, delivered in a random order.
#[derive(Default)]
struct Wire {
    mail: Mutex<Vec<(NodeId, NodeId, Vec<u8>)>>,
    chosen: AtomicU64,
}

struct End {
    name: NodeId,
    wire: Arc<Wire>,
}

impl Carrier for End {
    fn carry(&self, to: &NodeId, _: Lane, frame: Vec<u8>) {
        self.wire.mail.lock().expect("no panic").push((self.name.clone(), to.clone(), frame));
    }
}

struct Three {
    stores: Vec<(NodeId, MeshStore<End>)>,
    wire: Arc<Wire>,
    next: AtomicUsize,
    /// The time of the last request, in nanoseconds.
    latest: AtomicU64,
}

impl Three {
    fn new(options: &MeshOptions) -> Self {
        let wire = Arc::new(Wire::default());
        let nodes = mesh_nodes(3, options, Timestamp::EPOCH);
        let stores = nodes.into_iter().map(|node| {
            let name = node.member().id.clone();
            (name.clone(), MeshStore::new(node, End { name, wire: Arc::clone(&wire) }))
        });
        Self {
            stores: stores.collect(),
            wire: Arc::clone(&wire),
            next: AtomicUsize::new(0),
            latest: AtomicU64::new(0),
        }
    }

    /// Delivers one frame, in any order. Returns whether there was one.
    fn deliver(&self, now: Timestamp) -> bool {
        let (from, to, frame) = {
            let mut mail = self.wire.mail.lock().expect("no panic");
            if mail.is_empty() {
                return false;
            }
            let chosen = self.wire.chosen.fetch_add(0x9e37_79b9, Ordering::Relaxed);
            let index = usize::try_from(chosen).expect("64 bits") % mail.len();
            mail.remove(index)
        };
        if let Some((_, store)) = self.stores.iter().find(|(name, _)| *name == to) {
            store.on_frame(now, &from, &frame);
        }
        true
    }

    fn settle(&self, now: Timestamp) {
        for (_, store) in &self.stores {
            store.on_tick(now);
        }
        while self.deliver(now) {}
    }
}

impl Store for Three {
    async fn decide(&self, batch: &[Charge<'_>], context: Context) -> Result<Verdicts, StoreError> {
        self.latest.store(context.now.as_nanos(), Ordering::Relaxed);
        self.settle(context.now);
        let index = self.next.fetch_add(1, Ordering::Relaxed) % self.stores.len();
        let mut decision = pin!(self.stores.get(index).expect("one of three").1.decide(batch, context));
        let mut polling = std::task::Context::from_waker(Waker::noop());
        loop {
            if let Poll::Ready(verdicts) = decision.as_mut().poll(&mut polling) {
                while self.deliver(context.now) {}
                return verdicts;
            }
            assert!(self.deliver(context.now), "it waits although no frame is in transit");
        }
    }

    async fn forget(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        // At the time of the last request, like the stores: a frame with another time would be accepted as the
        // time of all clocks, and no window would begin past it.
        let now = Timestamp::from_nanos(self.latest.load(Ordering::Relaxed));
        let mut polling = std::task::Context::from_waker(Waker::noop());
        for (_, store) in &self.stores {
            let mut reset = pin!(store.forget(charge));
            loop {
                if let Poll::Ready(done) = reset.as_mut().poll(&mut polling) {
                    done?;
                    break;
                }
                assert!(self.deliver(now), "the owner is asked although no frame is in transit");
            }
        }
        while self.deliver(now) {}
        Ok(())
    }
}

// Fails when a reset uses the time of the store's last decision, which may be long ago, or when counters are swept by
// the time before a clock was set back.
#[test]
fn three_nodes_with_a_deciding_owner_match_the_model() {
    // The suite steps its clock back, which the mesh clock does not follow.
    let slew = std::time::Duration::ZERO;
    let options = MeshOptions { grant_ahead: false, slew, ..MeshOptions::default() };
    conforms(|| Three::new(&options));
}

// Fails when a node counts a refused cost above the limit alone, once `max_keys` is reached.
#[test]
fn oversized_cost_bars_no_client_of_full_mesh() {
    for (max_keys, others) in [(1, 16), (16, 64)] {
        for grant_ahead in [true, false] {
            let options = MeshOptions { max_keys, grant_ahead, ..MeshOptions::default() };
            oversized_costs_take_nothing(|| alone_with(options.clone()), others);
            oversized_costs_take_nothing(|| Three::new(&options), others);
        }
    }
}
