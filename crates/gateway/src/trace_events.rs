//! Trace events of a request: limiter stages and the decision.

use hivemind_telemetry::trace::{DecisionSpan, DecisionSummary, SpanStage};
use hivemind_tower::trace::DecisionStage;
use hivemind_tower::{Admission, Decision, RetryAfter, ServiceLimiter};

/// Records a stage of the limiter.
#[inline]
pub(super) fn enter(span: &mut Option<&mut DecisionSpan>, stage: DecisionStage) {
    let Some(span) = span else { return };
    match stage {
        DecisionStage::Resolved => span.enter(SpanStage::Count),
        DecisionStage::Waiting => span.enter(SpanStage::Wait),
        DecisionStage::Decided => span.enter(SpanStage::Counted),
        // For future variants of hivemind-tower.
        _ => {}
    }
}

/// Records the decision with its service and limit; nothing that identifies the client.
#[cold]
pub(super) fn record_decision(span: &mut DecisionSpan, gate: &ServiceLimiter, passage: &Admission) {
    let decision = match passage {
        Admission::Admitted(pass) => pass.decision(),
        Admission::Refused(decision, _) => decision.as_ref(),
        // For future variants of hivemind-tower.
        _ => return,
    };
    let retry_after = match decision.and_then(Decision::retry_after) {
        Some(RetryAfter::Seconds(seconds)) => Some(seconds.get()),
        _ => None,
    };
    let is_limited = decision.map(|decision| !decision.is_allowed());
    span.record_decision(DecisionSummary {
        domain: DecisionSummary::domain(gate.service(), true),
        keys: Vec::new(),
        is_limited,
        hits: 1,
        remaining: decision.map(Decision::remaining),
        retry_after: retry_after.filter(|_| is_limited == Some(true)),
        kind: decision.map(|decision| decision.kind().name()),
    });
}
