//! Record of a sampled check, from which the exporter builds the spans.

use super::context::{SpanId, TraceId};
use super::decision_span::DecisionSummary;
use super::span::{AttributeValue, Span, SpanKind, SpanStatus};
use super::tracer::{CounterStore, child_span};
use crate::Frontend;
use crate::settings::otel::StatusOnLimit;
use hivemind_core::Timestamp;
use http::Method;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseStatus {
    Grpc(i32),
    Http(u16),
}

/// The record of a check.
#[derive(Debug)]
pub(super) struct SpanRecord {
    pub(super) trace: TraceId,
    pub(super) id: SpanId,
    pub(super) parent: Option<SpanId>,
    pub(super) state: Option<Box<str>>,
    pub(super) frontend: Frontend,
    /// Of HTTP.
    pub(super) method: Option<&'static str>,
    pub(super) began: Timestamp,
    pub(super) reads: Option<Timestamp>,
    pub(super) writes: Option<Timestamp>,
    pub(super) waits: bool,
    pub(super) written: Option<Timestamp>,
    pub(super) fell_back: bool,
    pub(super) decided: Option<DecisionSummary>,
    pub(super) response: Option<ResponseStatus>,
    pub(super) ended: Timestamp,
}

impl SpanRecord {
    /// The span of the check and its children.
    pub(super) fn into_spans(self, store: CounterStore, on_limit: StatusOnLimit, spans: &mut Vec<Span>) {
        let of = (self.trace, self.id);
        if let Some(reads) = self.reads {
            spans.push(child_span(of, "ratelimit.state.read", reads, self.writes.unwrap_or(self.ended)));
        }
        if let Some(writes) = self.writes {
            let ended = self.written.unwrap_or(self.ended);
            let mut span = child_span(of, "ratelimit.state.write", writes, ended);
            span.attributes.push(("hivemind.store", AttributeValue::Text(store.name().into())));
            if self.fell_back {
                span.attributes.push(("hivemind.fallback", AttributeValue::Flag(true)));
            }
            if self.waits && store == CounterStore::Mesh {
                spans.push(child_span((self.trace, span.id), "ratelimit.mesh.ask", writes, ended));
            }
            spans.push(span);
        }
        let (attributes, status) = (self.attributes(), self.status(on_limit));
        spans.push(Span {
            trace: self.trace,
            id: self.id,
            parent: self.parent,
            is_remote: self.parent.is_some(),
            state: self.state,
            name: "ratelimit.check",
            kind: SpanKind::Server,
            began: self.began,
            // The wall clock may have been set in the meantime.
            ended: self.ended.max(self.began),
            attributes,
            status,
        });
    }

    fn attributes(&self) -> Vec<(&'static str, AttributeValue)> {
        let text = |text: &'static str| AttributeValue::Text(text.into());
        let mut all = match self.frontend {
            Frontend::Grpc => vec![("rpc.system", text("grpc")), ("rpc.method", text("ShouldRateLimit"))],
            Frontend::Json => vec![("http.route", text("/json"))],
            Frontend::Gateway => Vec::new(),
        };
        all.extend(self.method.map(|method| ("http.request.method", text(method))));
        match self.response {
            Some(ResponseStatus::Grpc(code)) => {
                all.push(("rpc.grpc.status_code", AttributeValue::Number(code.into())));
            }
            Some(ResponseStatus::Http(status)) => {
                all.push(("http.response.status_code", AttributeValue::Number(status.into())));
            }
            None => {}
        }
        let Some(decided) = &self.decided else { return all };
        all.push(("domain", AttributeValue::Text(decided.domain.to_string().into())));
        if !decided.keys.is_empty() {
            all.push(("descriptor_keys", AttributeValue::List(decided.keys.clone())));
        }
        let code = decided.is_limited.map_or("UNKNOWN", |limited| if limited { "OVER_LIMIT" } else { "OK" });
        all.push(("response_code", text(code)));
        all.push(("hit_count", AttributeValue::count(decided.hits)));
        all.extend(
            decided.is_limited.map(|limited| ("hivemind.rate_limit.limited", AttributeValue::Flag(limited))),
        );
        all.extend(
            decided.remaining.map(|left| ("hivemind.rate_limit.remaining", AttributeValue::count(left))),
        );
        all.extend(decided.kind.map(|kind| ("hivemind.rate_limit.type", text(kind))));
        all.extend(
            decided
                .retry_after
                .map(|after| ("hivemind.rate_limit.retry_after", AttributeValue::count(after))),
        );
        all
    }

    /// A refusal is a normal result and not an error.
    fn status(&self, on_limit: StatusOnLimit) -> SpanStatus {
        match self.response {
            None => SpanStatus::Error("not answered: the caller went, or its time was over"),
            // By the conventions, mistakes of the caller are not errors of the server.
            Some(ResponseStatus::Http(500..) | ResponseStatus::Grpc(2 | 4 | 12 | 13 | 14 | 15)) => {
                SpanStatus::Error("answered with an error")
            }
            Some(_) => {
                let is_limited = self.decided.as_ref().is_some_and(|of| of.is_limited == Some(true));
                if is_limited && on_limit == StatusOnLimit::Ok { SpanStatus::Ok } else { SpanStatus::Unset }
            }
        }
    }
}

impl CounterStore {
    const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Mesh => "mesh",
            Self::Redis => "redis",
        }
    }
}

/// A method that the conventions list; any other is arbitrary text of a client.
pub(super) fn known(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        "PATCH" => "PATCH",
        "OPTIONS" => "OPTIONS",
        "TRACE" => "TRACE",
        "CONNECT" => "CONNECT",
        _ => "_OTHER",
    }
}
