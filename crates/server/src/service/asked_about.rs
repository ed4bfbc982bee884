//! What an operator asks about a key: which counters it has. Nothing is decided, and nothing of it is counted or told.

use super::Service;
use crate::blocks::KeyName;
use crate::counters::{Counter, Counters};
use hivemind_core::store::{Charge, Store, Verdict};
use hivemind_core::{Descriptor, Timestamp};

impl<R: Store> Service<R> {
    /// Whether anything is limited at all.
    pub(crate) fn is_enabled(&self) -> bool {
        self.options.enabled
    }

    /// The counters that a descriptor of these entries is charged to, by the rules in force.
    pub(crate) fn counters_of(&self, asked: &KeyName) -> Counters {
        let in_force = self.in_force.load_full();
        let entries = asked.entries();
        let descriptors = [Descriptor::new(&entries)];
        let resolved = in_force.ruleset.rules.resolve(asked.domain(), &descriptors);
        let charges = self.charges(&resolved);
        let rule = resolved.rulings().next().and_then(|ruling| ruling.declared);
        let name = charges.first().map_or_else(|| asked.clone(), |charge| KeyName::of(charge.parts));
        let each = charges.iter().map(|charge| Counter {
            key: charge.key,
            limit: *charge.limit,
            ordinal: charge.ordinal,
            mode: charge.mode,
            sharing: charge.sharing,
        });
        Counters { name, rule, each: each.collect() }
    }

    /// Whether a charge is refused because an operator has blocked its key: then its rule does more than watch.
    #[inline]
    pub(super) fn is_blocked(
        &self,
        committed: bool,
        strictest: Option<(&Charge<'_>, &Verdict)>,
        now: Timestamp,
    ) -> bool {
        let blocks = self.storage.blocks();
        let until = |(charge, _): (&Charge<'_>, &Verdict)| blocks.until(charge.parts, now);
        !committed && blocks.are_any(now) && strictest.and_then(until).is_some()
    }
}
