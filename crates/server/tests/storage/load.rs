//! Requests without a pause, from several connections, while something happens to Redis.

use hivemind_core::{Clock, SystemClock};
use hivemind_testkit::{DEADLINE, Server, overall, request};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

/// A call waits for its time-out of 200 ms at most. The rest is for a machine that does much else besides.
const SLOWEST: Duration = Duration::from_secs(1);
/// Most calls wait for no time-out at all: the first that fail keep the others from asking.
const MEDIAN: Duration = Duration::from_millis(100);

/// What became of the calls.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) ok: usize,
    pub(crate) over: usize,
    /// How long each call took.
    pub(crate) took: Vec<Duration>,
}

/// Callers that ask until they are told to stop.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    callers: JoinSet<Heard>,
}

impl Load {
    /// Asks each of these nodes for the same from so many connections.
    pub(crate) async fn start(nodes: &[&Server], callers: usize, text: &'static str) -> Self {
        let (stop, answered) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let mut running = JoinSet::new();
        for node in nodes {
            for _ in 0..callers {
                let mut client = node.client().await;
                let (stop, answered) = (Arc::clone(&stop), Arc::clone(&answered));
                running.spawn(async move {
                    let mut heard = Heard::default();
                    while !stop.load(Ordering::Relaxed) {
                        let from = SystemClock.now();
                        let mut request = tonic::Request::new(request("d", text));
                        request.set_timeout(DEADLINE);
                        // Whatever becomes of Redis, a call is answered, and never with an error.
                        let answer = client.should_rate_limit(request).await.expect("an answer").into_inner();
                        heard.took.push(SystemClock.now().since(from));
                        match overall(&answer) {
                            "OK" => heard.ok += 1,
                            _ => heard.over += 1,
                        }
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                    heard
                });
            }
        }
        Self { stop, answered, callers: running }
    }

    /// Waits until so many more calls were answered.
    pub(crate) async fn answered(&self, more: usize) {
        let from = self.answered.load(Ordering::Relaxed);
        hivemind_testkit::within("answers", async {
            while self.answered.load(Ordering::Relaxed) < from + more {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// Ends it: what all of them heard together. None of them waited long.
    pub(crate) async fn end(mut self) -> Heard {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Heard::default();
        while let Some(heard) = self.callers.join_next().await {
            let heard = heard.expect("a caller whose calls were all answered");
            all.ok += heard.ok;
            all.over += heard.over;
            all.took.extend(heard.took);
        }
        all.took.sort_unstable();
        let (median, slowest) = (all.took[all.took.len() / 2], *all.took.last().expect("a call"));
        assert!(slowest < SLOWEST, "a call took {slowest:?}");
        assert!(median < MEDIAN, "half of the calls took {median:?}");
        all
    }
}
