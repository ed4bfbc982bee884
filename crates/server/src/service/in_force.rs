//! The rules in force, with what belongs to them.

use crate::ruleset::Ruleset;
use crate::storage::OnError;
use crate::telemetry::{RuleCounters, StatName, Stats};
use hivemind_core::rules::{Resolved, Ruling};
use smallvec::SmallVec;
use std::sync::Arc;

/// A ruleset with the counters that its rules are counted in.
pub(super) struct InForce {
    /// Whether these are rules at all, and not what stands in for them until some are loaded.
    pub(super) loaded: bool,
    pub(super) ruleset: Ruleset,
    /// By declaration; none where the name depends on the request.
    pub(super) counters: Vec<Option<Arc<RuleCounters>>>,
}

impl InForce {
    pub(super) fn new(ruleset: Ruleset, stats: &Stats) -> Self {
        let declared = ruleset.rules.declarations().zip(&ruleset.extras);
        let counters = declared.map(|((domain, _, rule), extras)| {
            let fixed = rule.is_some() && extras.stat.is_fixed();
            fixed.then(|| stats.of_rule(&StatName::new(domain, extras.stat.name(&[]))))
        });
        Self { loaded: true, counters: counters.collect(), ruleset }
    }

    /// What each charge says where the store cannot: its rule's word, else that `for_all`.
    pub(super) fn policies(&self, resolved: &Resolved<'_>, for_all: OnError) -> SmallVec<[OnError; 2]> {
        let of_ruling = |ruling: Ruling<'_>| {
            let extras = ruling.declared.and_then(|number| self.ruleset.extras.get(number));
            let policy = extras.and_then(|extras| extras.on_error).unwrap_or(for_all);
            std::iter::repeat_n(policy, ruling.charges.len())
        };
        resolved.rulings().flat_map(of_ruling).collect()
    }
}
