//! Alternating contenders. In a round each makes the same decisions; results are medians over the rounds and ratios of
//! medians.

use crate::watch::{monotonic, nanos_each, thread_cpu};
use std::hint::black_box;
use std::sync::Barrier;

/// Decisions in one turn: a few milliseconds.
pub const TURN: usize = 100_000;

/// One side of a comparison.
pub struct Contender<'a> {
    name: String,
    turn: Box<dyn FnMut(usize) -> f64 + 'a>,
}

impl<'a> Contender<'a> {
    /// `turn` makes the decisions of one round and returns the CPU nanoseconds of each.
    pub fn new(name: impl Into<String>, turn: impl FnMut(usize) -> f64 + 'a) -> Self {
        Self { name: name.into(), turn: Box::new(turn) }
    }
}

/// The result of one contender.
pub struct Taken {
    /// Its name.
    pub name: String,
    /// The median over the rounds, in CPU nanoseconds per decision.
    pub median: f64,
    /// The best round: the cost without disturbances.
    pub least: f64,
}

/// Runs all contenders in turns. The first round is a warm-up and is not counted.
#[must_use]
pub fn interleave(rounds: usize, mut contenders: Vec<Contender<'_>>) -> Vec<Taken> {
    let mut taken = vec![Vec::with_capacity(rounds); contenders.len()];
    for round in 0..=rounds {
        for (contender, taken) in contenders.iter_mut().zip(&mut taken) {
            let nanos = (contender.turn)(round);
            if round > 0 {
                taken.push(nanos);
            }
        }
    }
    contenders
        .into_iter()
        .zip(taken)
        .map(|(contender, mut taken)| {
            taken.sort_by(f64::total_cmp);
            Taken { name: contender.name, median: taken[taken.len() / 2], least: taken[0] }
        })
        .collect()
}

/// Decides one key repeatedly.
pub fn hot<'a>(who: &str, mut decide: impl FnMut() -> bool + 'a) -> Contender<'a> {
    Contender::new(who, move |_| {
        nanos_each(TURN, || {
            for _ in 0..TURN {
                black_box(decide());
            }
        })
    })
}

/// Each round uses other keys, and all contenders of a round the same keys.
pub fn through<'a, K>(who: &str, arrivals: &'a [K], decide: impl Fn(&K) -> bool + 'a) -> Contender<'a> {
    Contender::new(who, move |round| {
        let turn = round % (arrivals.len() / TURN);
        nanos_each(TURN, || {
            for key in &arrivals[turn * TURN..][..TURN] {
                black_box(decide(key));
            }
        })
    })
}

/// Runs `work` on two threads that start together: CPU nanoseconds of both threads and wall nanoseconds, for each of
/// the `count` calls per thread.
pub fn on_two_threads(count: usize, work: impl Fn(usize) + Sync) -> (f64, f64) {
    let start = Barrier::new(2);
    let timed = |thread| {
        start.wait();
        let (cpu, wall) = (thread_cpu(), monotonic());
        work(thread);
        (thread_cpu() - cpu, monotonic() - wall)
    };
    let (first, second) = std::thread::scope(|scope| {
        let other = scope.spawn(|| timed(1));
        (timed(0), other.join().unwrap_or_default())
    });
    let calls = 2.0 * count as f64;
    let cpu = (first.0 + second.0).as_nanos() as f64 / calls;
    let wall = first.1.max(second.1).as_nanos() as f64 / calls;
    (cpu, wall)
}
