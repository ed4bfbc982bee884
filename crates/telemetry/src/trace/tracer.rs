//! Tracer: begins the spans of checks and of rounds of the mesh.

use super::context::{Parent, SpanId, TraceId};
use super::decision_span::DecisionSpan;
use super::metrics::TraceMetrics;
use super::queue::{TraceItem, TraceQueue, TraceReceiver};
use super::sampler::Sampler;
use super::span::{AttributeValue, Span, SpanKind, SpanStatus};
use crate::Frontend;
use crate::settings::otel::StatusOnLimit;
use hivemind_core::Timestamp;
use http::HeaderMap;
use std::sync::Arc;
use std::time::Duration;

/// The owner of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterStore {
    Memory,
    Mesh,
    Redis,
}

/// Begins the spans of checks and of rounds of the mesh.
#[derive(Debug)]
pub struct Tracer {
    sampler: Sampler,
    pub(super) queue: TraceQueue,
    pub(super) store: CounterStore,
    pub(super) on_limit: StatusOnLimit,
}

impl Tracer {
    pub fn new(
        rate: f64,
        store: CounterStore,
        on_limit: StatusOnLimit,
        metrics: Arc<TraceMetrics>,
    ) -> (Arc<Self>, TraceReceiver) {
        let (queue, receiver) = TraceQueue::new(metrics);
        (Arc::new(Self { sampler: Sampler::new(rate), queue, store, on_limit }), receiver)
    }

    /// Begins the span of a check with these request headers; `None` if it is not sampled.
    #[inline]
    pub fn start_span(self: &Arc<Self>, headers: &HeaderMap, frontend: Frontend) -> Option<DecisionSpan> {
        let parent = Parent::of(headers);
        let trace = self.sampler.sample(parent.as_ref())?;
        Some(DecisionSpan::start(self, trace, parent.as_ref(), headers, frontend))
    }

    /// Records a round of the mesh, if it is sampled.
    pub fn record_round(
        &self,
        name: &'static str,
        (began, took): (Timestamp, Duration),
        attributes: Vec<(&'static str, AttributeValue)>,
    ) {
        let Some(trace) = self.sampler.sample(None) else { return };
        let span = Span {
            trace,
            id: SpanId::random(),
            parent: None,
            is_remote: false,
            state: None,
            name,
            kind: SpanKind::Internal,
            began,
            ended: began.saturating_add(took),
            attributes,
            status: SpanStatus::Unset,
        };
        self.queue.push(TraceItem::Span(Box::new(span)));
    }
}

/// A child span.
pub(super) fn child_span(of: (TraceId, SpanId), name: &'static str, from: Timestamp, to: Timestamp) -> Span {
    let (trace, parent) = of;
    Span {
        trace,
        id: SpanId::random(),
        parent: Some(parent),
        is_remote: false,
        state: None,
        name,
        kind: SpanKind::Internal,
        began: from,
        ended: to.max(from),
        attributes: Vec::new(),
        status: SpanStatus::Unset,
    }
}
