//! Trace attributes of a sampled decision.

use super::active_rules::ActiveRules;
use super::{Code, DecisionRequest, DecisionResponse, Status};
use hivemind_telemetry::trace::{DecisionSpan, DecisionSummary, SpanStage};
use std::future::poll_fn;
use std::pin::pin;

#[inline]
pub(super) fn note(span: &mut Option<&mut DecisionSpan>, stage: SpanStage) {
    if let Some(span) = span {
        span.enter(stage);
    }
}

/// Records the decision in the span, without values of clients.
#[inline]
pub(super) fn tell(
    span: Option<&mut DecisionSpan>,
    active: &ActiveRules,
    request: &DecisionRequest<'_>,
    answer: &DecisionResponse<'_>,
) {
    if let Some(span) = span {
        span.record_decision(decided(active, request, answer));
    }
}

#[cold]
fn decided(
    active: &ActiveRules,
    request: &DecisionRequest<'_>,
    answer: &DecisionResponse<'_>,
) -> DecisionSummary {
    let entries = request.descriptors.iter().flat_map(|descriptor| descriptor.entries);
    let limited = answer.statuses.iter().filter(|status| status.limit.is_some());
    let refusing = answer.statuses.iter().filter(|status| status.code == Code::OverLimit);
    let is_limited = answer.overall == Code::OverLimit;
    DecisionSummary {
        domain: DecisionSummary::domain(request.domain, active.ruleset.rules.has_domain(request.domain)),
        keys: DecisionSummary::keys(entries.map(|(key, _)| *key)),
        is_limited: Some(is_limited),
        hits: request.descriptors.iter().fold(0, |hits, of| hits.saturating_add(of.cost.get())),
        remaining: limited.map(|status| status.remaining.into()).min(),
        retry_after: refusing.filter_map(Status::reset_seconds).max().filter(|_| is_limited),
        kind: None,
    }
}

/// The output of a future, and whether it was ever pending.
pub(super) async fn has_waited<F: Future>(future: F) -> (F::Output, bool) {
    let mut future = pin!(future);
    let mut waited = false;
    let outcome = poll_fn(|cx| {
        let polled = future.as_mut().poll(cx);
        waited |= polled.is_pending();
        polled
    });
    let outcome = outcome.await;
    (outcome, waited)
}
