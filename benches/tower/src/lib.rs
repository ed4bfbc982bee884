//! Benchmark of the layer against axum alone and `tower_governor`.
//!
//! All contenders run in one process on one thread, in turns of a few milliseconds, so that other jobs affect all
//! of them. The measured time is the CPU time of the thread, from passing a request to dropping its response, first
//! without socket and executor, then with whole servers. No tracing subscriber is installed.

pub mod asking;
pub mod contenders;
pub mod report;
pub mod serving;
