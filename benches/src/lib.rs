//! What the benchmarks share: the contenders, their keys, and a way to measure
//! them that a noisy machine does not mislead.
//!
//! Two rules hold everywhere. Whoever is compared runs in the same process, in
//! turns of some milliseconds, so that a noisy neighbour hits both; and what is
//! counted is the thread's CPU time, not the wall's. Trust the ratios: the
//! nanoseconds are this machine's, at that minute.

pub mod contenders;
pub mod keys;
pub mod resident;
pub mod rounds;
pub mod watch;
