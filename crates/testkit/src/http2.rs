//! A client that speaks HTTP/2 by single frames, so that a test can send what no
//! library would. It answers SETTINGS and PING by itself; everything else is up to the test.

mod answer;
mod connection;
mod frame;
mod headers;

pub use answer::Answer;
pub use connection::{Connection, Ended};
pub use frame::{ACK, END_HEADERS, END_STREAM, Frame, Kind, PADDED, PRIORITY, Setting, reason};
pub use headers::{HEALTH_CHECK, HEALTH_WATCH, Headers, REFLECTION, framed, known};
