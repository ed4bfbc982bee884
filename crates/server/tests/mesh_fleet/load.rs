//! Open-loop load: a number of requests per second, distributed to the nodes in a chosen way, within the middle
//! of each window (see `tally`).
//!
//! A machine that cannot keep up gets less: only a number of requests are in flight at a time, and a window
//! in which responses to the previous one arrive is skipped.

use crate::fleet::Fleet;
use crate::tally::{Answer, Outcome, Tally};
use crate::window_time::{SECOND, begin, now, phase, until, window};
use hivemind_testkit::{Client, overall, request};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

/// Requests are sent in small groups, at this interval.
const TICK: Duration = Duration::from_millis(5);
/// The first request of a window, after its edge.
const FROM: Duration = Duration::from_millis(30);
/// The last one, after the same edge.
const TO: Duration = Duration::from_millis(950);
/// The timeout of a request.
const PATIENCE: Duration = Duration::from_secs(3);
/// Maximum requests in flight.
const OPEN: usize = 128;

/// The choice of the node for the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Distribution {
    /// In turn.
    Uniform,
    /// The n-th node gets 1/n of the first one's requests.
    Skewed,
    /// One node gets everything.
    One(usize),
}

impl Distribution {
    /// The node of each request in a round.
    pub(crate) fn round(self, nodes: usize) -> Vec<usize> {
        match self {
            Self::Uniform => (0..nodes).collect(),
            Self::One(node) => vec![node],
            Self::Skewed => {
                // The node furthest behind its share is next: evenly mixed, and the same in each run.
                let shares: Vec<f64> =
                    (1..=nodes).map(|rank| 1.0 / f64::from(u32::try_from(rank).unwrap())).collect();
                let mut owed = vec![0.0; nodes];
                let whole: f64 = shares.iter().sum();
                let mut round = Vec::new();
                for _ in 0..nodes * 100 {
                    owed.iter_mut().zip(&shares).for_each(|(owed, share)| *owed += share);
                    let next = (0..nodes).max_by(|&a, &b| owed[a].total_cmp(&owed[b])).unwrap();
                    owed[next] -= whole;
                    round.push(next);
                }
                round
            }
        }
    }
}

/// Load that runs until it is ended.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    windows: Arc<AtomicU64>,
    driver: JoinHandle<Tally>,
}

impl Load {
    /// Begins at the next edge, with `rate` requests per second for one key.
    pub(crate) fn start(fleet: &Fleet, deal: Distribution, rate: u32, text: &str) -> Self {
        let (stop, windows) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let clients: Vec<Client> = fleet.nodes.iter().map(crate::node::Node::client).collect();
        let driver = Driver {
            round: deal.round(clients.len()),
            clients,
            rate,
            text: text.to_owned(),
            tally: Arc::default(),
            sent: 0,
            open: Arc::new(Semaphore::new(OPEN)),
        };
        let driver = tokio::spawn(driver.run(Arc::clone(&stop), Arc::clone(&windows)));
        Self { stop, windows, driver }
    }

    /// Waits until `more` whole windows have passed.
    pub(crate) async fn windows(&self, more: u64) {
        let from = self.windows.load(Ordering::Relaxed);
        while self.windows.load(Ordering::Relaxed) < from + more {
            let next = begin(window(now(), SECOND) + 1, SECOND);
            until(next.saturating_add(Duration::from_millis(1))).await;
        }
    }

    /// Ends the load with the current window.
    pub(crate) async fn end(self) -> Tally {
        self.stop.store(true, Ordering::Relaxed);
        hivemind_testkit::within("the end of the load", self.driver).await.unwrap()
    }

    /// Load for this many windows.
    pub(crate) async fn over(
        fleet: &Fleet,
        deal: Distribution,
        rate: u32,
        text: &str,
        windows: u64,
    ) -> Tally {
        let load = Self::start(fleet, deal, rate, text);
        load.windows(windows).await;
        load.end().await
    }
}

struct Driver {
    clients: Vec<Client>,
    round: Vec<usize>,
    rate: u32,
    text: String,
    tally: Arc<Mutex<Tally>>,
    sent: usize,
    open: Arc<Semaphore>,
}

impl Driver {
    async fn run(mut self, stop: Arc<AtomicBool>, windows: Arc<AtomicU64>) -> Tally {
        while !stop.load(Ordering::Relaxed) {
            let next = begin(window(now(), SECOND) + 1, SECOND);
            until(next.saturating_add(FROM)).await;
            self.one_window().await;
            let all = u32::try_from(OPEN).unwrap();
            let _answered = hivemind_testkit::within("answers", self.open.acquire_many(all)).await.unwrap();
            windows.fetch_add(1, Ordering::Relaxed);
        }
        std::mem::take(&mut *self.tally.lock().unwrap())
    }

    /// Sends from 30 ms to 950 ms after the edge, evenly.
    async fn one_window(&mut self) {
        let number = window(now(), SECOND);
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
        let mut sent = 0;
        loop {
            tick.tick().await;
            let at = now();
            if window(at, SECOND) != number || phase(at, SECOND) >= TO {
                return;
            }
            let share = (phase(at, SECOND).saturating_sub(FROM) + TICK).as_secs_f64()
                / TO.saturating_sub(FROM).as_secs_f64();
            let due = (f64::from(self.rate) * share.min(1.0)).round();
            while f64::from(sent) < due {
                let Ok(place) = Arc::clone(&self.open).try_acquire_owned() else { break };
                self.send(place);
                sent += 1;
            }
        }
    }

    fn send(&mut self, place: OwnedSemaphorePermit) {
        let node = self.round[self.sent % self.round.len()];
        self.sent += 1;
        let (client, tally) = (self.clients[node].clone(), Arc::clone(&self.tally));
        let request = request("d", &self.text);
        tokio::spawn(async move {
            let answer = ask(client, request).await;
            tally.lock().unwrap().answers.push(answer);
            drop(place);
        });
    }
}

/// Sends one request and records its outcome.
pub(crate) async fn ask(
    mut client: Client,
    request: hivemind_testkit::proto::envoy::service::ratelimit::v3::RateLimitRequest,
) -> Answer {
    let sent = now();
    let answer = tokio::time::timeout(PATIENCE, client.should_rate_limit(request)).await;
    let received = now();
    let outcome = match answer {
        Ok(Ok(answer)) if overall(answer.get_ref()) == "OK" => Outcome::Admitted,
        Ok(Ok(_)) => Outcome::Refused,
        Ok(Err(_)) | Err(_) => Outcome::Failed,
    };
    Answer { sent, received, outcome }
}
