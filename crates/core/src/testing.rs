//! Conformance suite for stores: checks every store against the pure algorithms. A store
//! passes if it decides the tables as written, and thousands of generated [`Trace`]s like
//! the [`Model`], which is naive on purpose.
//!
//! ```
//! use hivemind_core::testing;
//! use hivemind_core::store::{MemoryStore, StoreOptions};
//!
//! testing::conforms(|| MemoryStore::new(StoreOptions::default()));
//! ```
//!
//! The generated part is the same in each run, so that a failing build keeps failing;
//! with `HIVEMIND_LONG=1` it is new in each run and twenty times as long.

mod generate;
mod model;
mod tables;
mod trace;

pub use generate::{buckets, costs, gaps, limits, traces, windows};
pub use model::Model;
pub use trace::{Amount, Gap, Trace, TraceCall, TraceCharge, TraceEvent};

use crate::store::Store;
use proptest::test_runner::{Config, RngSeed, TestError, TestRunner};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Checks the stores that `make_store` creates against the pure algorithms.
///
/// The stores may share one storage: each trace has its own keys.
///
/// ```
/// use hivemind_core::store::{MemoryStore, StoreOptions};
/// use hivemind_core::testing::conforms;
///
/// conforms(|| MemoryStore::new(StoreOptions::default()));
/// ```
///
/// # Panics
/// If a store decides otherwise, or fails; the message contains the shortest failing trace.
pub fn conforms<S: Store>(make_store: impl Fn() -> S) {
    for table in tables::all() {
        tables::check(&make_store(), &table);
    }
    let mut runner = TestRunner::new(cases(2_000));
    let outcome = runner.run(&traces(), |trace| {
        follows_the_model(&make_store(), &trace);
        Ok(())
    });
    if let Err(TestError::Fail(reason, trace)) = &outcome {
        eprint_trace(trace);
        assert!(outcome.is_ok(), "the store does not decide like the model: {reason}");
    }
    assert!(outcome.is_ok(), "no traces were generated: {outcome:?}");
}

/// Checks that a cost above the limit is refused and takes nothing, after `others` other counters filled the store.
///
/// [`conforms`] checks the same in a store with room.
///
/// ```
/// use hivemind_core::store::{MemoryStore, StoreOptions};
/// use hivemind_core::testing::oversized_costs_take_nothing;
///
/// let full = StoreOptions { max_keys: 8, ..StoreOptions::default() };
/// oversized_costs_take_nothing(|| MemoryStore::new(full), 8);
/// ```
///
/// # Panics
/// If a store decides otherwise, or fails.
pub fn oversized_costs_take_nothing<S: Store>(make_store: impl Fn() -> S, others: u32) {
    for table in tables::oversized() {
        let store = make_store();
        tables::fill(&store, others);
        tables::check(&store, &table);
    }
}

#[expect(clippy::print_stderr, reason = "a failing test prints its shortest trace")]
fn eprint_trace(trace: &Trace) {
    eprintln!("the shortest failing trace: {trace:#?}");
}

/// Plays `trace` on `store` and on the [`Model`] side by side.
///
/// ```
/// use hivemind_core::store::{MemoryStore, Mode, OnRefusal, Op, StoreOptions};
/// use hivemind_core::testing::{Amount, Gap, Trace, TraceCharge, TraceEvent, follows_the_model};
/// use hivemind_core::{Limit, Period, Timestamp};
///
/// let all = TraceCharge { counter: 0, amount: Amount::Capacity(0), op: Op::Spend, mode: Mode::Enforce };
/// let trace = Trace {
///     limits: vec![Limit::fixed_window(5, Period::SECOND)],
///     on_refusal: OnRefusal::CountRefusing,
///     start: Timestamp::EPOCH,
// The whole capacity, again at once, and again after the refusal's wait.
///     events: [Gap::Nanos(0), Gap::Nanos(0), Gap::Wait(0)].map(|gap| TraceEvent::Batch(gap, vec![all])).into(),
/// };
/// follows_the_model(&MemoryStore::new(StoreOptions::default()), &trace);
/// ```
///
/// # Panics
/// If they differ in any part of any verdict.
pub fn follows_the_model<S: Store>(store: &S, trace: &Trace) {
    let (mut model, mut decisions) = (Model::default(), 0_u32);
    trace.play(&fresh_domain(), |call| match call {
        TraceCall::Decide(batch, context) => {
            let expected = model.decide(batch, context);
            // Half of the calls try without waiting first; a count recorded along with `None` would show.
            decisions += 1;
            let at_once = if decisions % 2 == 0 { store.try_decide(batch, context) } else { None };
            let decided = at_once.map_or_else(|| block_on(store.decide(batch, context)), Ok);
            assert_eq!(decided.as_ref(), Ok(&expected), "at {:?}: {batch:#?}", context.now);
            Some(expected)
        }
        TraceCall::Forget(charge) => {
            model.forget(charge.key);
            assert_eq!(block_on(store.forget(charge)), Ok(()));
            None
        }
    });
}

/// A domain that no other trace uses, in this process or in another that shares the store.
fn fresh_domain() -> String {
    static TRACES: AtomicU64 = AtomicU64::new(0);
    format!("conformance-{}-{}", std::process::id(), TRACES.fetch_add(1, Ordering::Relaxed))
}

/// The number of cases of a property: `quick`, always the same; with `HIVEMIND_LONG=1`
/// twenty times as many, new in each run.
///
/// ```
/// use hivemind_core::testing::{cases, limits};
/// use proptest::test_runner::TestRunner;
///
/// let property = TestRunner::new(cases(100)).run(&limits(), |limit| {
///     assert!(!limit.longest_memory().is_zero());
///     Ok(())
/// });
/// assert!(property.is_ok());
/// ```
#[must_use]
pub fn cases(quick: u32) -> Config {
    let long = std::env::var_os("HIVEMIND_LONG").is_some_and(|value| value == "1");
    let (cases, rng_seed) =
        if long { (quick.saturating_mul(20), RngSeed::Random) } else { (quick, RngSeed::Fixed(0x4856_4d44)) };
    // More cases reject more inputs that are outside a property's precondition.
    let max_global_rejects = cases.max(1_024);
    Config { cases, rng_seed, max_global_rejects, failure_persistence: None, ..Config::default() }
}

/// Blocks this thread until a future is ready. For tests and for programs without an
/// async runtime.
///
/// ```
/// use hivemind_core::testing::block_on;
///
/// assert_eq!(block_on(async { 1 + 1 }), 2);
/// ```
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            // A wake between the poll and here is not lost: the park returns immediately.
            Poll::Pending => thread::park(),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
