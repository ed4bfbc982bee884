//! Records a decision in the ring of recent decisions.

use super::{Answer, Asked, Code};
use hivemind_core::rules::ResolvedRequest;
use hivemind_telemetry::logging::hits;
use hivemind_telemetry::ring::{DecisionRing, Head, Part};

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
    let parts = asked.descriptors.iter().zip(&answer.statuses).map(|(descriptor, status)| Part {
        entries: descriptor.entries,
        hits: hits(descriptor),
        is_over: status.code == Code::OverLimit,
        rule: rulings.next().and_then(|ruling| ruling.declared),
        remaining: status.limit.as_ref().map(|_| status.remaining.into()),
        has_own_limit: descriptor.limit.is_some(),
    });
    let is_denied = answer.overall == Code::OverLimit;
    ring.record(&Head { at: asked.now, door: asked.door, domain: asked.domain, is_denied }, parts);
}
