//! What a request that is followed is told of its way through the limiter.

use hivemind_telemetry::trace::{Check, Decided, Stage};
use hivemind_tower::trace::DecisionStage as Asked;
use hivemind_tower::{Admission, Decision, RetryAfter, ServiceLimiter};

/// The limiter has come so far with it.
#[inline]
pub(super) fn comes_to(check: &mut Option<&mut Check>, stage: Asked) {
    let Some(check) = check else { return };
    match stage {
        Asked::Resolved => check.comes_to(Stage::Writes),
        Asked::Waiting => check.comes_to(Stage::Waits),
        Asked::Decided => check.comes_to(Stage::Written),
        // As hivemind-tower may come to say more.
        _ => {}
    }
}

/// What was decided, by the service and its limit: nothing that is its client's.
#[cold]
pub(super) fn is_decided(check: &mut Check, gate: &ServiceLimiter, passage: &Admission) {
    let decision = match passage {
        Admission::Admitted(pass) => pass.decision(),
        Admission::Refused(decision, _) => decision.as_ref(),
        // As hivemind-tower may come to say more.
        _ => return,
    };
    let retry_after = match decision.and_then(Decision::retry_after) {
        Some(RetryAfter::Seconds(seconds)) => Some(seconds.get()),
        _ => None,
    };
    let is_limited = decision.map(|decision| !decision.is_allowed());
    check.is_decided(Decided {
        domain: Decided::domain(gate.service(), true),
        keys: Vec::new(),
        is_limited,
        hits: 1,
        remaining: decision.map(Decision::remaining),
        retry_after: retry_after.filter(|_| is_limited == Some(true)),
        kind: decision.map(|decision| decision.kind().name()),
    });
}
