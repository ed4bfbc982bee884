//! Shared code of the benchmarks: contenders, keys, and measurements that tolerate a noisy machine.
//!
//! Contenders run in the same process in turns of a few milliseconds, so that other jobs affect all of them, and the
//! measured time is the CPU time of the thread. Only ratios are meaningful: nanoseconds depend on the machine and
//! the time.

pub mod contenders;
pub mod keys;
pub mod resident;
pub mod rounds;
pub mod watch;
