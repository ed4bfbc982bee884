//! Continuous load over several connections while Redis fails.

use hivemind_core::{Clock, SystemClock};
use hivemind_testkit::{DEADLINE, Server, overall, request};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// A call waits for its timeout of 200 ms at most. The rest allows for a busy machine.
const SLOWEST: Duration = Duration::from_secs(1);
/// Most calls wait for no timeout: the circuit breaker opens after the first failures.
const MEDIAN: Duration = Duration::from_millis(100);

/// The outcomes of the calls.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    pub(crate) ok: usize,
    pub(crate) over: usize,
    /// The latency of each call.
    pub(crate) took: Vec<Duration>,
}

/// Clients that send requests until they are stopped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    callers: JoinSet<Outcomes>,
}

impl Load {
    /// Starts `callers` connections that repeat one request, spread over these nodes.
    pub(crate) async fn start(nodes: &[&Server], callers: usize, text: &'static str) -> Self {
        let (stop, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let mut running = JoinSet::new();
        for node in nodes {
            for _ in 0..callers {
                let mut client = node.client().await;
                let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
                running.spawn(async move {
                    let mut outcomes = Outcomes::default();
                    while !stop.load(Ordering::Relaxed) {
                        let from = SystemClock.now();
                        let mut request = tonic::Request::new(request("d", text));
                        request.set_timeout(DEADLINE);
                        // Whatever happens to Redis, a call is answered, and never with an error.
                        let answer = client.should_rate_limit(request).await.expect("an answer").into_inner();
                        outcomes.took.push(SystemClock.now().since(from));
                        match overall(&answer) {
                            "OK" => outcomes.ok += 1,
                            _ => outcomes.over += 1,
                        }
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                    outcomes
                });
            }
        }
        Self { stop, answered, callers: running }
    }

    /// Waits until `more` more calls were answered.
    pub(crate) async fn answered(&self, more: usize) {
        let from = self.answered.load(Ordering::Relaxed);
        hivemind_testkit::within("answers", async {
            while self.answered.load(Ordering::Relaxed) < from + more {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// Stops the load and returns the combined outcomes. Asserts that no call waited long.
    pub(crate) async fn end(mut self) -> Outcomes {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Outcomes::default();
        while let Some(outcomes) = self.callers.join_next().await {
            let outcomes = outcomes.expect("a caller whose calls were all answered");
            all.ok += outcomes.ok;
            all.over += outcomes.over;
            all.took.extend(outcomes.took);
        }
        all.took.sort_unstable();
        let (median, slowest) = (all.took[all.took.len() / 2], *all.took.last().expect("a call"));
        assert!(slowest < SLOWEST, "a call took {slowest:?}");
        assert!(median < MEDIAN, "half of the calls took {median:?}");
        all
    }
}
