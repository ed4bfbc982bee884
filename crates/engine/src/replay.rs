//! Replay: decides recorded requests at their recorded times.

mod access_log;
mod chart;
mod comparison;
mod engine;
mod input_lines;
mod most_limited;
mod recorded_request;
mod summary;
mod timeline;

pub use access_log::AccessLogReader;
pub use comparison::{Both, Comparison, Total};
pub use engine::{Engine, ReplayDecision};
pub use input_lines::InputLines;
pub use recorded_request::{LineError, RecordedRequest};
pub use summary::Summary;
