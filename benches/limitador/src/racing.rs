//! Race of two threads for the limit of one client: the number of requests that pass beyond it.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Excess of a race.
#[derive(Default)]
pub struct Beyond {
    /// Clients with passed requests in both threads. Only these were contended: each thread requests the whole
    /// limit, and a thread that is first takes all of it.
    pub raced: usize,
    /// Clients with more passed requests than their limit.
    pub clients: usize,
    /// Passed requests of all clients beyond their limits.
    pub requests: usize,
}

/// For each client, both threads start together and request twice the `limit` in total.
pub fn beyond(clients: &[String], limit: usize, admits: impl Fn(&str) -> bool + Sync) -> Beyond {
    let arrived = AtomicUsize::new(0);
    let passed = || {
        let of = |(round, client): (usize, &String)| {
            meet(&arrived, round);
            (0..limit).filter(|_| admits(client)).count()
        };
        clients.iter().enumerate().map(of).collect::<Vec<usize>>()
    };
    let (first, second) = std::thread::scope(|scope| {
        let other = scope.spawn(passed);
        (passed(), other.join().expect("the other thread counts too"))
    });
    first.iter().zip(&second).fold(Beyond::default(), |mut sum, (first, second)| {
        // Fewer passed requests would be another bug, so this panics.
        let excess = (first + second).checked_sub(limit).expect("twice the limit was asked for");
        sum.raced += usize::from(*first.min(second) > 0);
        sum.clients += usize::from(excess > 0);
        sum.requests += excess;
        sum
    })
}

/// Spins until the other thread arrives: a wake-up would take longer than a whole turn.
fn meet(arrived: &AtomicUsize, round: usize) {
    arrived.fetch_add(1, Ordering::AcqRel);
    let both = 2 * (round + 1);
    let mut looked = 0_u32;
    while arrived.load(Ordering::Acquire) < both {
        looked = looked.wrapping_add(1);
        // The other thread may need this core.
        if looked.is_multiple_of(1_000) { std::thread::yield_now() } else { std::hint::spin_loop() }
    }
}
