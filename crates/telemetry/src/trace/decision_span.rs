//! Decision span: the trace of a sampled check from request to response. It records little; the exporter builds the
//! spans. It is queued when it is dropped, independent of the result.

use super::context::{self, Parent, SpanId, TRACEPARENT, TRACESTATE, TraceId, traceparent};
use super::queue::TraceItem;
use super::span_record::{ResponseStatus, SpanRecord, known};
use super::tracer::Tracer;
use crate::Frontend;
use hivemind_core::{Clock, SystemClock};
use http::{HeaderMap, Method};
use std::sync::Arc;

/// Most recorded keys of descriptors, and their length.
const MOST_KEYS: usize = 32;
const LONGEST_KEY: usize = 64;
/// Replaces a name that a client may have chosen.
const OTHER: &str = "other";

/// The stage that a decision has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanStage {
    /// Find the limits of the request and their counters.
    Resolve,
    /// Decide on the counters and record the hits.
    Count,
    /// The store did not respond immediately.
    Wait,
    /// The store has decided.
    Counted,
    /// The fallback has decided in place of the store.
    FellBack,
}

/// The result of a decision without any text of clients.
#[derive(Clone, Debug, Default)]
pub struct DecisionSummary {
    pub domain: Box<str>,
    pub keys: Vec<Box<str>>,
    /// `None`: no decision, or no limit applies.
    pub is_limited: Option<bool>,
    pub hits: u64,
    pub remaining: Option<u64>,
    /// In seconds.
    pub retry_after: Option<u64>,
    /// The kind of limit at the gateway.
    pub kind: Option<&'static str>,
}

impl DecisionSummary {
    /// A name that may be exported: a name in the rules, or text of a client that has the form of a name.
    pub fn key(text: &str) -> Box<str> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:/".contains(&byte);
        let sound = !text.is_empty() && text.len() <= LONGEST_KEY && text.bytes().all(is_name);
        if sound { text.into() } else { OTHER.into() }
    }

    /// The keys of descriptors, each once.
    pub fn keys<'k>(all: impl Iterator<Item = &'k str>) -> Vec<Box<str>> {
        let mut keys: Vec<Box<str>> = Vec::new();
        for key in all.map(Self::key) {
            if keys.len() < MOST_KEYS && !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }

    /// A domain with rules; other names may be chosen by clients.
    pub fn domain(name: &str, has_rules: bool) -> Box<str> {
        if has_rules { name.into() } else { OTHER.into() }
    }
}

/// The span of a sampled check.
#[derive(Debug)]
pub struct DecisionSpan {
    tracer: Arc<Tracer>,
    /// `None` after it was queued.
    record: Option<Box<SpanRecord>>,
}

impl DecisionSpan {
    #[cold]
    pub(super) fn start(
        tracer: &Arc<Tracer>,
        trace: TraceId,
        parent: Option<&Parent>,
        headers: &HeaderMap,
        frontend: Frontend,
    ) -> Self {
        let began = SystemClock.now();
        let record = SpanRecord {
            trace,
            id: SpanId::random(),
            parent: parent.map(|parent| parent.span),
            // Without a parent the state is dropped.
            state: parent.and_then(|_| context::state(headers)),
            frontend,
            method: None,
            began,
            reads: None,
            writes: None,
            waits: false,
            written: None,
            fell_back: false,
            decided: None,
            response: None,
            ended: began,
        };
        Self { tracer: Arc::clone(tracer), record: Some(Box::new(record)) }
    }

    fn note(&mut self, change: impl FnOnce(&mut SpanRecord)) {
        if let Some(record) = &mut self.record {
            change(record);
        }
    }

    /// Records that a stage begins. A repeated decision restarts its stages.
    pub fn enter(&mut self, stage: SpanStage) {
        self.note(|record| match stage {
            SpanStage::Resolve => {
                record.reads = Some(SystemClock.now());
                (record.writes, record.written) = (None, None);
                (record.waits, record.fell_back) = (false, false);
            }
            SpanStage::Count => record.writes = Some(SystemClock.now()),
            SpanStage::Wait => record.waits = true,
            SpanStage::Counted | SpanStage::FellBack => {
                record.written = Some(SystemClock.now());
                record.fell_back = stage == SpanStage::FellBack;
            }
        });
    }

    /// Sets the HTTP method.
    pub fn set_method(&mut self, method: &Method) {
        self.note(|record| record.method = Some(known(method)));
    }

    pub fn record_decision(&mut self, decided: DecisionSummary) {
        self.note(|record| record.decided = Some(decided));
    }

    /// Sets the gRPC status.
    pub fn record_grpc_status(&mut self, code: tonic::Code) {
        self.note(|record| record.response = Some(ResponseStatus::Grpc(code.into())));
    }

    /// Sets the HTTP status.
    pub fn record_http_status(&mut self, status: http::StatusCode) {
        self.note(|record| record.response = Some(ResponseStatus::Http(status.as_u16())));
    }

    /// Writes this span as the parent into the headers of the next request.
    pub fn inject(&self, headers: &mut HeaderMap) {
        let Some(record) = &self.record else { return };
        let Some(own) = traceparent(record.trace, record.id) else { return };
        headers.insert(TRACEPARENT, own);
        if record.parent.is_none() {
            headers.remove(TRACESTATE);
        }
    }
}

impl Drop for DecisionSpan {
    fn drop(&mut self) {
        if let Some(mut record) = self.record.take() {
            record.ended = SystemClock.now();
            self.tracer.queue.push(TraceItem::Decision(record));
        }
    }
}
