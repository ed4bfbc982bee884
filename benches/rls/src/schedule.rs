//! Schedule of requests.
//!
//! Closed loop: a request is due as soon as a stream is free. Open loop: at a fixed rate, independent of responses.
//! Latency starts when a request is due, so a stall appears in all requests that were due during it (no coordinated
//! omission).

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, mpsc};

/// The minimum interval of the timer, to save CPU on the measured cores. A request is late by at most this interval,
/// and its latency includes it.
const TICK: Duration = Duration::from_micros(100);

/// A request to send.
pub struct Due {
    /// Its number, from 0.
    pub index: u64,
    /// The start of its latency.
    pub since: Instant,
}

/// Distributes requests to the streams of one thread.
pub enum Schedule {
    /// A request is due when a stream is free.
    Closed {
        /// The number of distributed requests.
        next: Cell<u64>,
        /// The maximum.
        n: u64,
        /// The end of the run.
        until: Instant,
    },
    /// A timer determines when a request is due.
    Open(Mutex<mpsc::UnboundedReceiver<Due>>),
}

impl Schedule {
    /// Starts now.
    #[must_use]
    pub fn start(n: u64, time: Duration, rate: Option<f64>) -> Self {
        let start = Instant::now();
        let until = start + time;
        let Some(rate) = rate else {
            return Self::Closed { next: Cell::new(0), n, until };
        };
        let (sender, receiver) = mpsc::unbounded_channel();
        // A separate thread, because tokio's timer has a resolution of a millisecond, the target of the median.
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
                // A late request is sent immediately, with its latency from when it was due.
                if sender.send(Due { index, since: due }).is_err() {
                    break;
                }
            }
        });
        Self::Open(Mutex::new(receiver))
    }

    /// The next request, when it is due; `None` after the last.
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
    async fn open_loop_request_without_free_stream_is_due_on_time() {
        let schedule = Schedule::start(50, Duration::from_secs(50), Some(10_000.0));
        let first = schedule.next().await.unwrap().since;
        // The times are those of the plan, not of the call: a latency from `since` contains the wait.
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
