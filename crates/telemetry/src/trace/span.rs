//! A span that is over.

use super::context::{SpanId, TraceId};
use hivemind_core::Timestamp;
use std::borrow::Cow;

/// Where in a conversation a span stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanKind {
    Internal,
    Server,
}

/// How it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanStatus {
    Unset,
    Ok,
    Error(&'static str),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    Flag(bool),
    Number(i64),
    Text(Cow<'static, str>),
    List(Vec<Box<str>>),
}

/// A span that is over.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub trace: TraceId,
    pub id: SpanId,
    pub parent: Option<SpanId>,
    /// Whether the parent is another process's.
    pub is_remote: bool,
    pub state: Option<Box<str>>,
    pub name: &'static str,
    pub kind: SpanKind,
    pub began: Timestamp,
    pub ended: Timestamp,
    pub attributes: Vec<(&'static str, AttributeValue)>,
    pub status: SpanStatus,
}

impl AttributeValue {
    /// A number as OpenTelemetry has it, which knows no larger ones.
    pub fn count(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}
