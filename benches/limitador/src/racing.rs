//! Two threads that ask for one client at once, many times: does more pass than its limit?

use std::sync::atomic::{AtomicUsize, Ordering};

/// What passed beyond the limit.
#[derive(Default)]
pub struct Beyond {
    /// Clients for whom both threads had a request pass. Without them nothing was raced for: each thread
    /// asks for the whole limit, and one that goes first takes all of it.
    pub raced: usize,
    /// Clients of whom more requests passed than their limit.
    pub clients: usize,
    /// Requests of all clients that passed and should not have.
    pub requests: usize,
}

/// For each client, both threads together ask twice what its `limit` is; they begin together.
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
        // Fewer would be a fault of another kind, and this is no place to overlook it.
        let excess = (first + second).checked_sub(limit).expect("twice the limit was asked for");
        sum.raced += usize::from(*first.min(second) > 0);
        sum.clients += usize::from(excess > 0);
        sum.requests += excess;
        sum
    })
}

/// Waits for the other thread without sleeping: to be woken takes longer than a whole turn of ours, which
/// would then be over before the other began.
fn meet(arrived: &AtomicUsize, round: usize) {
    arrived.fetch_add(1, Ordering::AcqRel);
    let both = 2 * (round + 1);
    let mut looked = 0_u32;
    while arrived.load(Ordering::Acquire) < both {
        looked = looked.wrapping_add(1);
        // The other may need this core to get here at all.
        if looked.is_multiple_of(1_000) { std::thread::yield_now() } else { std::hint::spin_loop() }
    }
}
