//! A limit as it was written and as it is in force, for those who ask why.

use crate::bucket::{LimitKind, Place};
use hivemind_core::Limit;

/// One limit in force, beside what was configured for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EffectiveLimit {
    /// The service; none for the platform's, which holds for every service without its own.
    pub service: Option<String>,
    /// The endpoint's pattern, or `*`.
    pub endpoint: String,
    /// What it counts.
    pub kind: LimitKind,
    /// What the levels of the configuration add up to.
    pub configured: Limit,
    /// What is in force: the same, at most the platform's maximum.
    pub limit: Limit,
}

impl EffectiveLimit {
    pub(crate) fn new(place: &Place<'_>, configured: Limit, limit: Limit) -> Self {
        let (service, endpoint) = (place.service.map(Into::into), place.endpoint.into());
        Self { service, endpoint, kind: place.kind, configured, limit }
    }

    /// Whether the platform's maximum holds it down.
    #[must_use]
    pub fn is_capped(&self) -> bool {
        self.configured != self.limit
    }
}
