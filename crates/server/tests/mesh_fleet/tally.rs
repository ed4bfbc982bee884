//! Exact counts of admitted requests per window.
//!
//! A request is certainly of a window if it was sent and answered within it. So load is sent only from 30 ms
//! after an edge until 50 ms before the next; responses that arrive after the edge all the same are counted
//! separately, as belonging to either of two windows, and the driver skips the second of them.

use crate::window_time::{SECOND, window};
use hivemind_core::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// The outcome of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Admitted,
    Refused,
    /// No response, or an error: its node is gone.
    Failed,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) sent: Timestamp,
    pub(crate) received: Timestamp,
    pub(crate) outcome: Outcome,
}

/// The requests of one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) offered: u64,
    pub(crate) admitted: u64,
    pub(crate) failed: u64,
    /// Admitted as well, but perhaps in the next window.
    pub(crate) late: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) answers: Vec<Answer>,
}

impl Tally {
    /// The one-second windows that have requests.
    pub(crate) fn windows(&self) -> BTreeMap<u64, Window> {
        let mut windows = BTreeMap::<u64, Window>::new();
        for answer in &self.answers {
            let number = window(answer.sent, SECOND);
            let tally = windows.entry(number).or_default();
            tally.offered += 1;
            match answer.outcome {
                Outcome::Admitted if window(answer.received, SECOND) == number => tally.admitted += 1,
                Outcome::Admitted => tally.late += 1,
                Outcome::Refused => {}
                Outcome::Failed => tally.failed += 1,
            }
        }
        windows
    }

    /// The total of admitted requests.
    pub(crate) fn admitted(&self) -> u64 {
        self.answers.iter().filter(|answer| answer.outcome == Outcome::Admitted).count() as u64
    }

    pub(crate) fn failed(&self) -> u64 {
        self.answers.iter().filter(|answer| answer.outcome == Outcome::Failed).count() as u64
    }

    /// The latencies of the selected answers.
    pub(crate) fn latency(&self, chosen: impl Fn(&Answer) -> bool) -> Latency {
        let took = self.answers.iter().filter(|answer| chosen(answer));
        Latency::of(took.map(|answer| answer.received.since(answer.sent)).collect())
    }

    /// One line: the admitted requests of each window.
    pub(crate) fn summary(&self) -> String {
        let windows = self.windows();
        let windows = windows.values().map(|window| match window.late {
            0 => window.admitted.to_string(),
            late => format!("{}+{late}", window.admitted),
        });
        windows.collect::<Vec<_>>().join(" ")
    }
}

/// Latencies.
#[derive(Clone, Debug)]
pub(crate) struct Latency(Vec<Duration>);

impl Latency {
    pub(crate) fn of(mut took: Vec<Duration>) -> Self {
        took.sort_unstable();
        Self(took)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The latency that `share` of a thousand answers do not exceed.
    pub(crate) fn permille(&self, share: usize) -> Duration {
        let last = self.0.len().saturating_sub(1);
        self.0.get(last * share / 1_000).copied().unwrap_or_default()
    }

    pub(crate) fn summary(&self) -> String {
        let at = |share| self.permille(share).as_micros();
        format!("{} requests, p50 {} us, p95 {} us, p99 {} us", self.count(), at(500), at(950), at(990))
    }
}
