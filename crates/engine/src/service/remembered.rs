//! Records a decision in the ring of recent decisions.

use super::{Answer, Asked, Code};
use hivemind_core::rules::ResolvedRequest;
use hivemind_telemetry::logging::hits;
use hivemind_telemetry::ring::{DecisionHead, DecisionRing, DescriptorOutcome};

#[inline]
pub(super) fn remember(
    ring: &DecisionRing,
    asked: &Asked<'_>,
    answer: &Answer<'_>,
    resolved: &ResolvedRequest<'_>,
) {
    if !ring.is_on() {
        return;
    }
    let mut rulings = resolved.rule_matches();
    let parts =
        asked.descriptors.iter().zip(&answer.statuses).map(|(descriptor, status)| DescriptorOutcome {
            entries: descriptor.entries,
            hits: hits(descriptor),
            is_over: status.code == Code::OverLimit,
            rule: rulings.next().and_then(|ruling| ruling.declared),
            remaining: status.limit.as_ref().map(|_| status.remaining.into()),
            has_own_limit: descriptor.limit.is_some(),
        });
    let is_denied = answer.overall == Code::OverLimit;
    ring.record(
        &DecisionHead { at: asked.now, frontend: asked.frontend, domain: asked.domain, is_denied },
        parts,
    );
}
