//! Contenders taking turns. A round gives each of them the same decisions to
//! make; what is told is the median over the rounds, and ratios of medians.

use crate::watch::{monotonic, nanos_each, thread_cpu};
use std::hint::black_box;
use std::sync::Barrier;

/// Decisions in one turn: some milliseconds.
pub const TURN: usize = 100_000;

/// One side of a comparison.
pub struct Contender<'a> {
    name: String,
    turn: Box<dyn FnMut(usize) -> f64 + 'a>,
}

impl<'a> Contender<'a> {
    /// `turn` makes the decisions of one round and tells the nanoseconds of CPU that each took.
    pub fn new(name: impl Into<String>, turn: impl FnMut(usize) -> f64 + 'a) -> Self {
        Self { name: name.into(), turn: Box::new(turn) }
    }
}

/// What one contender needed.
pub struct Taken {
    /// Who.
    pub name: String,
    /// The median over the rounds, in nanoseconds of CPU a decision.
    pub median: f64,
    /// The best round: what it costs when nobody disturbs.
    pub least: f64,
}

/// Lets all contenders take turns. The first round only warms up and is not counted.
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

/// Asks for one key again and again.
pub fn hot<'a>(who: &str, mut decide: impl FnMut() -> bool + 'a) -> Contender<'a> {
    Contender::new(who, move |_| {
        nanos_each(TURN, || {
            for _ in 0..TURN {
                black_box(decide());
            }
        })
    })
}

/// Every round goes through other keys, and all contenders of it through the same.
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

/// `work` on two threads that start together: nanoseconds of CPU, both threads'
/// together, and of the wall, for each of the `count` calls that each thread makes.
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
