//! What was offered and what was admitted, by window; for buckets, against one that all
//! admissions go through.

use crate::codec::tag_at;
use hivemind_core::algorithm::{Action, State, step};
use hivemind_core::{Cost, Limit, Timestamp};
use std::collections::BTreeMap;

/// The count of one counter over all nodes.
#[derive(Clone, Debug)]
pub struct Tally {
    limit: Limit,
    windows: BTreeMap<u64, (u64, u64)>,
    /// The one bucket that everything admitted is taken from.
    central: Option<State>,
    /// What was admitted although the one bucket did not have it.
    pub overdrawn: u64,
    /// What one bucket alone would have admitted of the same requests, and what was admitted.
    alone: Option<State>,
    /// Admitted by one bucket alone.
    pub by_one: u64,
    /// Admitted by the mesh.
    pub admitted: u64,
}

impl Tally {
    pub(super) fn new(limit: Limit) -> Self {
        let windows = BTreeMap::new();
        Self { limit, windows, central: None, overdrawn: 0, alone: None, by_one: 0, admitted: 0 }
    }

    /// A request came; times are the node's for windows, and the true ones for buckets.
    pub(super) fn offer(&mut self, cost: u64, at: Timestamp, truly: Timestamp) {
        self.windows.entry(tag_at(&self.limit, at)).or_default().0 += cost;
        if matches!(self.limit, Limit::TokenBucket(_)) {
            let action = Action::Spend { count_refusal: false };
            let one = step(&self.limit, self.alone, action, Cost::new(cost), truly);
            self.alone = Some(one.state);
            self.by_one += if one.verdict.is_admitted() { cost } else { 0 };
        }
    }

    pub(super) fn admit(&mut self, cost: u64, at: Timestamp, truly: Timestamp) {
        self.windows.entry(tag_at(&self.limit, at)).or_default().1 += cost;
        self.admitted += cost;
        if matches!(self.limit, Limit::TokenBucket(_)) {
            let action = Action::Spend { count_refusal: false };
            let one = step(&self.limit, self.central, action, Cost::new(cost), truly);
            self.central = Some(one.state);
            self.overdrawn += if one.verdict.is_admitted() { 0 } else { cost };
        }
    }

    /// The most that any window admitted beyond its limit.
    #[must_use]
    pub fn most_over(&self) -> u64 {
        if matches!(self.limit, Limit::TokenBucket(_)) {
            return self.overdrawn;
        }
        let limit = u64::from(self.limit.requests());
        self.windows.values().map(|(_, admitted)| admitted.saturating_sub(limit)).max().unwrap_or(0)
    }

    /// Offered and admitted, by window.
    #[must_use]
    pub fn windows(&self) -> &BTreeMap<u64, (u64, u64)> {
        &self.windows
    }

    /// What was missed of what could have been admitted, and that, over these windows.
    #[must_use]
    pub fn under(&self, windows: std::ops::Range<u64>) -> (u64, u64) {
        let limit = u64::from(self.limit.requests());
        let counted = self.windows.range(windows).map(|(_, (offered, admitted))| {
            let could = (*offered).min(limit);
            (could.saturating_sub(*admitted), could)
        });
        counted.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }
}
