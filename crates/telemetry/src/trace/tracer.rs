//! Follows checks, and rounds of the mesh.

use super::check::{Check, Door};
use super::context::{Parent, SpanId, TraceId};
use super::figures::TraceFigures;
use super::queue::{Outlet, Queue, Told};
use super::sampler::Sampler;
use super::span::{Kind, Span, Status, Value};
use crate::settings::otel::OnLimit;
use hivemind_core::Timestamp;
use http::HeaderMap;
use std::sync::Arc;
use std::time::Duration;

/// Who keeps the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeper {
    Memory,
    Mesh,
    Redis,
}

/// Follows checks, and rounds of the mesh.
#[derive(Debug)]
pub struct Tracer {
    sampler: Sampler,
    pub(super) queue: Queue,
    pub(super) keeper: Keeper,
    pub(super) on_limit: OnLimit,
}

impl Tracer {
    pub fn new(
        rate: f64,
        keeper: Keeper,
        on_limit: OnLimit,
        figures: Arc<TraceFigures>,
    ) -> (Arc<Self>, Outlet) {
        let (queue, outlet) = Queue::new(figures);
        (Arc::new(Self { sampler: Sampler::new(rate), queue, keeper, on_limit }), outlet)
    }

    /// Begins to follow the check of a request with these headers; none where it is not followed.
    #[inline]
    pub fn check(self: &Arc<Self>, headers: &HeaderMap, door: Door) -> Option<Check> {
        let parent = Parent::of(headers);
        let trace = self.sampler.follows(parent.as_ref())?;
        Some(Check::begin(self, trace, parent.as_ref(), headers, door))
    }

    /// Tells of a round that the mesh has made, if it is followed.
    pub fn round(
        &self,
        name: &'static str,
        (began, took): (Timestamp, Duration),
        attributes: Vec<(&'static str, Value)>,
    ) {
        let Some(trace) = self.sampler.follows(None) else { return };
        let span = Span {
            trace,
            id: SpanId::random(),
            parent: None,
            is_remote: false,
            state: None,
            name,
            kind: Kind::Internal,
            began,
            ended: began.saturating_add(took),
            attributes,
            status: Status::Unset,
        };
        self.queue.push(Told::Span(Box::new(span)));
    }
}

/// A span of its own for a part of another.
pub(super) fn within(of: (TraceId, SpanId), name: &'static str, from: Timestamp, to: Timestamp) -> Span {
    let (trace, parent) = of;
    Span {
        trace,
        id: SpanId::random(),
        parent: Some(parent),
        is_remote: false,
        state: None,
        name,
        kind: Kind::Internal,
        began: from,
        ended: to.max(from),
        attributes: Vec::new(),
        status: Status::Unset,
    }
}
