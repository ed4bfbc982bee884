//! What the layer costs a request, beside axum alone and beside `tower_governor`.
//!
//! All run in one process on one thread, in turns of some milliseconds, so that a
//! noisy neighbour hits everyone; what is counted is the thread's CPU time, from
//! handing a request over to dropping its answer, first without a socket or an
//! executor, then by whole servers. No subscriber of tracing.

pub mod asking;
pub mod contenders;
pub mod report;
pub mod serving;
