//! Replay: decides recorded requests at their recorded times.

mod access_log;
mod chart;
mod comparison;
mod engine;
mod lines;
mod recorded;
mod summary;
mod timeline;
mod top;

pub use access_log::AccessLog;
pub use comparison::{Both, Comparison, Total};
pub use engine::{Engine, Taken};
pub use lines::Lines;
pub use recorded::{Malformed, Recorded};
pub use summary::Summary;
