//! Measurement of docs/decisions/004: what a silent fallback to the token bucket would admit instead of the
//! configured algorithm.
//!
//!     cargo run --release --bin fallback

use hivemind_benches::contenders::bucket;
use hivemind_core::algorithm::{Action, State, step};
use hivemind_core::{Cost, Limit, Period, Timestamp};

/// Midnight of a Thursday: every window begins here.
const START_MS: u64 = 7 * 86_400_000 * 2_900;

fn main() {
    let limits = |requests, period| {
        [
            Limit::fixed_window(requests, period),
            Limit::sliding_window(requests, period),
            bucket(requests, period, requests),
        ]
    };
    println!("| requests | limit | sent | fixed window | sliding window | token bucket |");
    println!("|---|---|---|---|---|---|");
    let edge: Vec<u64> = (0..100).map(|n| 59_900 + n).chain((0..100).map(|n| 60_000 + n)).collect();
    row(
        "100 in the last 0.1 s of a minute, 100 in the first of the next",
        "100/min",
        &limits(100, Period::MINUTE),
        &edge,
    );
    let alternating: Vec<u64> =
        (1..=10).flat_map(|minute| (0..200).map(move |n| minute * 60_000 - 100 + n)).collect();
    row("the same at each edge, for ten minutes", "100/min", &limits(100, Period::MINUTE), &alternating);
    let steady: Vec<u64> = (0..1_200).map(|n| n * 500).collect();
    row("2 a second for ten minutes", "100/min", &limits(100, Period::MINUTE), &steady);
    let day: Vec<u64> = (0..8_640).map(|n| n * 10_000).collect();
    row("one every 10 s for a day", "1000/day", &limits(1_000, Period::DAY), &day);
}

fn row(requests: &str, limit: &str, limits: &[Limit], at_ms: &[u64]) {
    let admitted: Vec<String> = limits.iter().map(|limit| replay(limit, at_ms).to_string()).collect();
    println!("| {requests} | {limit} | {} | {} |", at_ms.len(), admitted.join(" | "));
}

fn replay(limit: &Limit, at_ms: &[u64]) -> usize {
    let mut state: Option<State> = None;
    let mut admitted = 0;
    for at in at_ms {
        let now = Timestamp::from_millis(START_MS + at);
        let made = step(limit, state, Action::Spend { count_refusal: true }, Cost::ONE, now);
        state = Some(made.state);
        admitted += usize::from(made.verdict.is_admitted());
    }
    admitted
}
