//! Finished span.

use super::context::{SpanId, TraceId};
use hivemind_core::Timestamp;
use std::borrow::Cow;

/// The kind of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpanKind {
    Internal,
    Server,
}

/// The status of a span.
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

/// A finished span.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub trace: TraceId,
    pub id: SpanId,
    pub parent: Option<SpanId>,
    /// Whether the parent is in another process.
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
    /// An integer, at most the maximum of OpenTelemetry.
    pub fn count(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}
