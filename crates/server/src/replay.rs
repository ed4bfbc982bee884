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

pub(crate) use access_log::AccessLog;
pub(crate) use comparison::{Both, Comparison, Total};
pub(crate) use engine::{Engine, Taken};
pub(crate) use lines::Lines;
pub(crate) use recorded::{Malformed, Recorded};
pub(crate) use summary::Summary;
