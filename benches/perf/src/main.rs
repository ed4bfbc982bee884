//! Measured code paths: runs one case a number of times. `cargo xtask perf` runs it under callgrind twice, with
//! different numbers, so that the difference contains neither startup nor preparation.
//!
//! A case repeats exactly: seeds and times are fixed, and each iteration takes the same path.

#![expect(clippy::print_stdout, reason = "the case list is its output")]
#![expect(clippy::unwrap_used, reason = "a case that cannot be prepared must end the run")]

mod call;
mod decision;
mod mesh;

use hivemind_core::{Limit, Period, Rate, Timestamp};
use std::process::ExitCode;

/// A case: its name, and a function that prepares it and returns one iteration.
type Case = (&'static str, fn() -> Iteration);
type Iteration = Box<dyn FnMut()>;

/// Ten seconds after midnight.
const NOW: Timestamp = Timestamp::from_millis(20_000 * 86_400_000 + 10_000);
/// Requests that no case uses up.
const PLENTY: u32 = 1_000_000_000;

fn cases() -> impl Iterator<Item = &'static Case> {
    [decision::CASES, call::CASES, mesh::CASES].into_iter().flatten()
}

/// Counting is on only within this function.
#[inline(never)]
fn repeat(iteration: &mut Iteration, times: u32) {
    (0..times).for_each(|_| iteration());
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["--list"] => cases().for_each(|(name, _)| println!("{name}")),
        [name, iterations] => {
            let (Some((_, prepare)), Ok(iterations)) =
                (cases().find(|case| case.0 == name), iterations.parse::<u32>())
            else {
                return ExitCode::from(2);
            };
            repeat(&mut prepare(), iterations);
        }
        _ => {
            println!("Usage: hivemind-perf --list | CASE ITERATIONS");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn fixed_window(requests: u32) -> Limit {
    Limit::fixed_window(requests, Period::DAY)
}

fn sliding_window(requests: u32) -> Limit {
    Limit::sliding_window(requests, Period::DAY)
}

fn token_bucket(burst: u32) -> Limit {
    Limit::token_bucket(Rate::new(1_000, Period::SECOND).unwrap(), burst).unwrap()
}
