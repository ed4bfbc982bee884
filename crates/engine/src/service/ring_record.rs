//! Records a decision in the ring of recent decisions.

use super::{Code, DecisionRequest, DecisionResponse};
use hivemind_core::rules::ResolvedRequest;
use hivemind_telemetry::logging::hits;
use hivemind_telemetry::ring::{DecisionHead, DecisionRing, DescriptorOutcome};

#[inline]
pub(super) fn record(
    ring: &DecisionRing,
    request: &DecisionRequest<'_>,
    answer: &DecisionResponse<'_>,
    resolved: &ResolvedRequest<'_>,
) {
    if !ring.is_on() {
        return;
    }
    let mut rule_matches = resolved.rule_matches();
    let parts =
        request.descriptors.iter().zip(&answer.statuses).map(|(descriptor, status)| DescriptorOutcome {
            entries: descriptor.entries,
            hits: hits(descriptor),
            is_over: status.code == Code::OverLimit,
            rule: rule_matches.next().and_then(|rule_match| rule_match.declared),
            remaining: status.limit.as_ref().map(|_| status.remaining.into()),
            has_own_limit: descriptor.limit.is_some(),
        });
    let is_denied = answer.overall == Code::OverLimit;
    ring.record(
        &DecisionHead { at: request.now, frontend: request.frontend, domain: request.domain, is_denied },
        parts,
    );
}
