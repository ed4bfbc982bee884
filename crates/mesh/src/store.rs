//! The mesh as a store: the node behind a lock, and futures that wait for its later decisions. A decision with
//! held allowance is made outside the node, under the lock of one shard of its counters. The driver of the
//! store supplies frames and time, and carries the outgoing frames. No lock is held while a frame is carried,
//! so a carrier may deliver immediately.

mod operations;

use crate::counter::shards::Shards;
use crate::node::{Inspection, Lane, Node, NodeDecision, Output, Ticket};
use crate::options::Consistency;
use crate::sync::{Mutex, MutexGuard, lock};
use crate::view::NodeId;
use hivemind_core::Timestamp;
use hivemind_core::store::{Charge, Context, LocalStore, MemoryStore, Store, StoreError, Verdicts};
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

/// Carries frames to peers.
///
/// ```
/// use hivemind_mesh::{Carrier, Lane, NodeId};
/// use std::sync::mpsc::Sender;
///
/// /// Passes frames to a thread that writes them.
/// struct Mail(Sender<(NodeId, Lane, Vec<u8>)>);
///
/// impl Carrier for Mail {
///     fn carry(&self, to: &NodeId, lane: Lane, frame: Vec<u8>) {
///         let _ = self.0.send((to.clone(), lane, frame)); // Lost updates are sent again.
///     }
/// }
/// ```
pub trait Carrier: Send + Sync {
    /// Carries one frame to a peer, or loses it; it must not block.
    fn carry(&self, to: &NodeId, lane: Lane, frame: Vec<u8>);
}

impl<C: Carrier + ?Sized> Carrier for Arc<C> {
    fn carry(&self, to: &NodeId, lane: Lane, frame: Vec<u8>) {
        (**self).carry(to, lane, frame);
    }
}

/// Updates sent to peers, without frames that a request waits for.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_mesh::{Carrier, Lane, MeshOptions, MeshStore, Node, NodeId, SentUpdates};
///
/// struct Nowhere;
/// impl Carrier for Nowhere {
///     fn carry(&self, _: &NodeId, _: Lane, _: Vec<u8>) {}
/// }
/// let now = Timestamp::from_millis(1_700_000_000_000);
/// let store = MeshStore::new(Node::new(NodeId::parse("a")?, 1, MeshOptions::default(), now), Nowhere);
/// assert_eq!(store.on_tick(now), SentUpdates::default()); // It has no peers.
/// # Ok::<(), hivemind_mesh::UnusableName>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SentUpdates {
    /// The number of peers.
    pub peers: usize,
    /// The bytes of frames.
    pub bytes: usize,
}

impl SentUpdates {
    fn of(sends: &[(NodeId, Lane, Vec<u8>)]) -> Self {
        let updates = sends.iter().filter(|(_, lane, _)| *lane == Lane::Sync);
        let bytes = updates.clone().map(|(_, _, frame)| frame.len()).sum();
        let peers: BTreeSet<&NodeId> = updates.map(|(to, ..)| to).collect();
        Self { peers: peers.len(), bytes }
    }
}

/// Counters shared by a mesh of peers.
///
/// ```
/// use hivemind_core::store::{Charge, Context, Key, Parts, Store};
/// use hivemind_core::{Limit, Period, Timestamp, testing::block_on};
/// use hivemind_mesh::{Carrier, Lane, MeshOptions, MeshStore, Node, NodeId};
///
/// struct Nowhere;
/// impl Carrier for Nowhere {
///     fn carry(&self, _: &NodeId, _: Lane, _: Vec<u8>) {}
/// }
/// let now = Timestamp::from_millis(1_700_000_000_000);
/// let store = MeshStore::new(Node::new(NodeId::parse("a")?, 1, MeshOptions::default(), now), Nowhere);
/// store.with(|node| node.found(now)); // Alone, it owns all counters.
/// let limit = Limit::fixed_window(1, Period::MINUTE);
/// let ada = Parts { domain: "shop", entries: &[("user", "ada")] };
/// let charge = Charge::spend(Key::from_bits(7, 11), ada, &limit);
/// assert!(block_on(store.decide(&[charge], Context::at(now)))?.committed);
/// assert!(!block_on(store.decide(&[charge], Context::at(now)))?.committed);
/// store.on_tick(now); // The driver supplies the time and the peers' frames.
/// store.on_frame(now, &NodeId::parse("b")?, b"no frame at all");
/// assert!(store.rights_held(now).is_empty()); // No other node holds any.
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MeshStore<C> {
    /// The node's counters, in shards with their own locks.
    shards: Arc<Shards>,
    /// Counters that are not shared, which have their own locks, too.
    local: Arc<MemoryStore>,
    consistency: Consistency,
    state: Mutex<StoreState>,
    carrier: C,
}

struct StoreState {
    node: Node,
    open: BTreeMap<Ticket, PendingAnswer>,
    /// The present, as last supplied: a reset does not carry a time.
    latest: Timestamp,
}

/// A waiting decision or reset.
#[derive(Default)]
struct PendingAnswer {
    outcome: Option<OperationOutcome>,
    waker: Option<Waker>,
}

enum OperationOutcome {
    Decided(Verdicts),
    Looked(Inspection),
    Reset,
    GivenUp,
}

impl<C: Carrier> MeshStore<C> {
    /// A store of this node, whose frames `carrier` takes.
    pub fn new(node: Node, carrier: C) -> Self {
        let (shards, local) = (Arc::clone(node.shards()), Arc::clone(node.local()));
        let consistency = node.consistency();
        let state = StoreState { node, open: BTreeMap::new(), latest: Timestamp::EPOCH };
        Self { shards, local, consistency, state: Mutex::new(state), carrier }
    }

    /// A frame came from a peer; the transport has verified the name.
    pub fn on_frame(&self, now: Timestamp, from: &NodeId, bytes: &[u8]) {
        self.at(now, |node| node.on_frame(now, from, bytes));
    }

    /// Time has passed; call it every few milliseconds. Returns the traffic of updates.
    pub fn on_tick(&self, now: Timestamp) -> SentUpdates {
        self.at(now, |node| node.on_tick(now))
    }

    fn at(&self, now: Timestamp, act: impl FnOnce(&mut Node)) -> SentUpdates {
        let mut state = self.lock();
        state.latest = now;
        act(&mut state.node);
        self.carry_out(state)
    }

    /// Runs `act` on the node, and carries out its outputs.
    pub fn with<R>(&self, act: impl FnOnce(&mut Node) -> R) -> R {
        let mut state = self.lock();
        let done = act(&mut state.node);
        self.carry_out(state);
        done
    }

    /// The allowance of each peer for counters that this node owns, without reported spending.
    pub fn rights_held(&self, now: Timestamp) -> BTreeMap<NodeId, u64> {
        let me = self.with(|node| node.member().id.clone());
        self.shards.rights_held(&me, now)
    }

    fn lock(&self) -> MutexGuard<'_, StoreState> {
        lock(&self.state)
    }

    /// Decides with held allowance, without the node; or counters that are not shared.
    #[inline]
    fn decide_held(&self, batch: &[Charge<'_>], context: Context) -> Option<Verdicts> {
        let is_local = |charge: &Charge<'_>| {
            charge.sharing.consistency.unwrap_or(self.consistency) == Consistency::Local
        };
        if batch.iter().all(is_local) {
            let context = Context { now: self.shards.mesh_time(context.now), ..context };
            return Some(self.local.decide_now(batch, context));
        }
        let [charge] = batch else { return None };
        let verdict = self.shards.decide_held(charge, context, self.consistency)?;
        Some(Verdicts::of_one(true, verdict))
    }

    fn carry_out(&self, mut state: MutexGuard<'_, StoreState>) -> SentUpdates {
        let outputs: Vec<Output> = state.node.outputs().collect();
        if outputs.is_empty() {
            return SentUpdates::default();
        }
        let (mut sends, mut wakers) = (Vec::new(), Vec::new());
        for output in outputs {
            let (ticket, outcome) = match output {
                Output::Send { to, lane, frame } => {
                    sends.push((to, lane, frame));
                    continue;
                }
                Output::Decided(ticket, verdicts) => (ticket, OperationOutcome::Decided(verdicts)),
                Output::Looked(ticket, inspection) => (ticket, OperationOutcome::Looked(inspection)),
                Output::Reset(ticket) => (ticket, OperationOutcome::Reset),
                Output::GivenUp(ticket) => (ticket, OperationOutcome::GivenUp),
            };
            if let Some(answer) = state.open.get_mut(&ticket) {
                answer.outcome = Some(outcome);
                wakers.extend(answer.waker.take());
            }
        }
        drop(state);
        let sent = SentUpdates::of(&sends);
        for (to, lane, frame) in sends {
            self.carrier.carry(&to, lane, frame);
        }
        wakers.into_iter().for_each(Waker::wake);
        sent
    }

    /// Waits for a decision. A dropped future leaves nothing behind.
    async fn answer(&self, ticket: Ticket) -> OperationOutcome {
        let _guard = TicketGuard { store: self, ticket };
        poll_fn(|context| {
            let mut state = self.lock();
            let answer = state.open.entry(ticket).or_default();
            if let Some(outcome) = answer.outcome.take() {
                Poll::Ready(outcome)
            } else {
                answer.waker = Some(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}

struct TicketGuard<'a, C: Carrier> {
    store: &'a MeshStore<C>,
    ticket: Ticket,
}

impl<C: Carrier> Drop for TicketGuard<'_, C> {
    fn drop(&mut self) {
        self.store.lock().open.remove(&self.ticket);
    }
}

impl<C: Carrier> Store for MeshStore<C> {
    async fn decide(&self, batch: &[Charge<'_>], context: Context) -> Result<Verdicts, StoreError> {
        if let Some(verdicts) = self.decide_held(batch, context) {
            return Ok(verdicts);
        }
        let decided = {
            let mut state = self.lock();
            state.latest = context.now;
            let decided = state.node.decide(batch, context);
            if let NodeDecision::Later(ticket) = &decided {
                // Before the lock is released: the answer may come immediately.
                state.open.insert(*ticket, PendingAnswer::default());
            }
            self.carry_out(state);
            decided
        };
        match decided {
            NodeDecision::Now(verdicts) => Ok(verdicts),
            NodeDecision::Later(ticket) => match self.answer(ticket).await {
                OperationOutcome::Decided(verdicts) => Ok(verdicts),
                OperationOutcome::Looked(_) | OperationOutcome::Reset | OperationOutcome::GivenUp => {
                    Err(StoreError::DeadlinePassed)
                }
            },
        }
    }

    #[inline]
    fn try_decide(&self, batch: &[Charge<'_>], context: Context) -> Option<Verdicts> {
        if let Some(verdicts) = self.decide_held(batch, context) {
            return Some(verdicts);
        }
        let mut state = self.lock();
        state.latest = context.now;
        let decided = state.node.try_decide(batch, context);
        self.carry_out(state);
        decided
    }

    async fn forget(&self, charge: &Charge<'_>) -> Result<(), StoreError> {
        if charge.sharing.consistency.unwrap_or(self.consistency) == Consistency::Local {
            self.local.forget_now(charge.key);
            return Ok(());
        }
        self.reset(charge).await
    }
}
