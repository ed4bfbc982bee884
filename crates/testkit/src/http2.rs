//! A client that sends single HTTP/2 frames, so that a test can send what a library would not.
//! It acknowledges SETTINGS and PING by itself; the test does everything else.

mod answer;
mod connection;
mod frame;
mod headers;

pub use answer::Answer;
pub use connection::{Connection, ConnectionEnd};
pub use frame::{ACK, END_HEADERS, END_STREAM, Frame, FrameType, PADDED, PRIORITY, Setting, reason};
pub use headers::{HEALTH_CHECK, HEALTH_WATCH, Headers, REFLECTION, framed, known};
