//! Results of the requests.

use hdrhistogram::Histogram;
use std::time::Duration;

/// The kind of a response.
#[derive(Clone, Copy)]
pub enum Answer {
    /// The request may pass.
    Ok,
    /// The request is over its limit.
    Over,
    /// Anything else, mostly errors.
    Other,
}

/// Latencies and responses, with three significant digits up to a minute.
pub struct Tally {
    latency: Histogram<u64>,
    ok: u64,
    over: u64,
    other: u64,
}

impl Default for Tally {
    fn default() -> Self {
        let latency = Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds in order");
        Self { latency, ok: 0, over: 0, other: 0 }
    }
}

impl Tally {
    /// Counts one response.
    pub fn add(&mut self, latency: Duration, answer: Answer) {
        self.latency.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
        match answer {
            Answer::Ok => self.ok += 1,
            Answer::Over => self.over += 1,
            Answer::Other => self.other += 1,
        }
    }

    /// Adds the counts of another tally.
    ///
    /// # Panics
    /// Never: all have the same bounds.
    pub fn merge(&mut self, other: &Self) {
        self.latency.add(&other.latency).expect("the same bounds");
        self.ok += other.ok;
        self.over += other.over;
        self.other += other.other;
    }

    /// All of it as one line of JSON.
    #[must_use]
    pub fn json(&self, seconds: f64) -> String {
        let us = |quantile| self.latency.value_at_quantile(quantile) as f64 / 1e3;
        let n = self.latency.len();
        format!(
            "{{\"n\": {n}, \"seconds\": {seconds:.3}, \"rps\": {:.0}, \"ok\": {}, \"over\": {}, \"other\": {}, \
             \"p50\": {:.1}, \"p95\": {:.1}, \"p99\": {:.1}, \"p999\": {:.1}, \"max\": {:.1}}}",
            n as f64 / seconds,
            self.ok,
            self.over,
            self.other,
            us(0.5),
            us(0.95),
            us(0.99),
            us(0.999),
            us(1.0),
        )
    }
}
