//! What was admitted in each window, exactly.
//!
//! An answer is of a window for certain if it was asked for and given within it. So whoever drives
//! load asks only from 30 ms after an edge until 50 ms before the next; what is answered later than
//! the edge all the same is counted apart, and belongs to either of two windows; the second of
//! them is then left out by the driver.

use crate::moment::{SECOND, window};
use hivemind_core::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// What came of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Admitted,
    Refused,
    /// No answer, or an error: its node is gone.
    Failed,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) asked: Timestamp,
    pub(crate) given: Timestamp,
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
    /// The windows of a second, those without a request left out.
    pub(crate) fn windows(&self) -> BTreeMap<u64, Window> {
        let mut windows = BTreeMap::<u64, Window>::new();
        for answer in &self.answers {
            let number = window(answer.asked, SECOND);
            let tally = windows.entry(number).or_default();
            tally.offered += 1;
            match answer.outcome {
                Outcome::Admitted if window(answer.given, SECOND) == number => tally.admitted += 1,
                Outcome::Admitted => tally.late += 1,
                Outcome::Refused => {}
                Outcome::Failed => tally.failed += 1,
            }
        }
        windows
    }

    /// All that was admitted.
    pub(crate) fn admitted(&self) -> u64 {
        self.answers.iter().filter(|answer| answer.outcome == Outcome::Admitted).count() as u64
    }

    pub(crate) fn failed(&self) -> u64 {
        self.answers.iter().filter(|answer| answer.outcome == Outcome::Failed).count() as u64
    }

    /// How long answers took, of those that a test chooses.
    pub(crate) fn latency(&self, chosen: impl Fn(&Answer) -> bool) -> Latency {
        let took = self.answers.iter().filter(|answer| chosen(answer));
        Latency::of(took.map(|answer| answer.given.since(answer.asked)).collect())
    }

    /// One line: what each window admitted.
    pub(crate) fn shown(&self) -> String {
        let windows = self.windows();
        let shown = windows.values().map(|window| match window.late {
            0 => window.admitted.to_string(),
            late => format!("{}+{late}", window.admitted),
        });
        shown.collect::<Vec<_>>().join(" ")
    }
}

/// How long things took.
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

    /// How long so many of a thousand took at most.
    pub(crate) fn permille(&self, share: usize) -> Duration {
        let last = self.0.len().saturating_sub(1);
        self.0.get(last * share / 1_000).copied().unwrap_or_default()
    }

    pub(crate) fn shown(&self) -> String {
        let at = |share| self.permille(share).as_micros();
        format!("{} requests, p50 {} us, p95 {} us, p99 {} us", self.count(), at(500), at(950), at(990))
    }
}
