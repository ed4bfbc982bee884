//! When requests are due.
//!
//! Closed loop: at once, as soon as a stream is free. Open loop: at a fixed rate, however late the answers are. A
//! request's latency begins when it was due, so one stall shows in all requests that were due meanwhile
//! (no coordinated omission).

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, mpsc};

/// The clock wakes no more often than this, so that it does not eat the cores that it measures; a request is late by
/// as much at most, and its latency says so.
const TICK: Duration = Duration::from_micros(100);

/// A request to be sent.
pub struct Due {
    /// Its number, from 0.
    pub index: u64,
    /// Where its latency begins.
    pub since: Instant,
}

/// Deals requests out to the streams of one thread.
pub enum Schedule {
    /// The next one is due when somebody asks.
    Closed {
        /// How many were dealt out.
        next: Cell<u64>,
        /// The most.
        n: u64,
        /// When to end.
        until: Instant,
    },
    /// A clock says when.
    Open(Mutex<mpsc::UnboundedReceiver<Due>>),
}

impl Schedule {
    /// Begins now.
    #[must_use]
    pub fn start(n: u64, time: Duration, rate: Option<f64>) -> Self {
        let start = Instant::now();
        let until = start + time;
        let Some(rate) = rate else {
            return Self::Closed { next: Cell::new(0), n, until };
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        // A thread of its own: tokio's timer counts whole milliseconds, which is as much as the median may be.
        thread::spawn(move || {
            let mut woken = start;
            for index in 0..n {
                let due = start + Duration::from_secs_f64(index as f64 / rate);
                if due >= until {
                    break;
                }
                if due > woken {
                    let wake = due.max(woken + TICK);
                    while let Some(left) =
                        wake.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
                    {
                        thread::park_timeout(left);
                    }
                    woken = Instant::now();
                }
                // What is late is sent at once, and counts from when it was due.
                if sender.send(Due { index, since: due }).is_err() {
                    break;
                }
            }
        });
        Self::Open(Mutex::new(receiver))
    }

    /// The next request, when it is due; none when all were.
    pub async fn next(&self) -> Option<Due> {
        match self {
            Self::Closed { next, n, until } => {
                let index = next.get();
                let since = Instant::now();
                next.set(index + 1);
                (index < *n && since < *until).then_some(Due { index, since })
            }
            Self::Open(receiver) => receiver.lock().await.recv().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_is_due_on_time_even_if_nobody_asks_for_it() {
        let schedule = Schedule::start(50, Duration::from_secs(50), Some(10_000.0));
        let first = schedule.next().await.unwrap().since;
        // The times are the plan, not when somebody asked: a latency from `since` contains the wait.
        for index in 1..50 {
            let due = schedule.next().await.unwrap();
            assert_eq!(due.index, index);
            let late = due.since - first;
            let planned = Duration::from_secs_f64(index as f64 / 10_000.0);
            assert!(late.abs_diff(planned) < Duration::from_micros(1), "{late:?} for {planned:?}");
        }
        assert!(schedule.next().await.is_none());
    }

    #[tokio::test]
    async fn both_loops_end_with_their_time() {
        for rate in [None, Some(1.0)] {
            let schedule = Schedule::start(100, Duration::ZERO, rate);
            assert!(schedule.next().await.is_none());
        }
    }
}
