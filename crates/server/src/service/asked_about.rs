//! What an operator asks about a key: which counters it has. Nothing is decided, and nothing of it is counted or told.

use super::Service;
use crate::blocks::KeyName;
use crate::counters::{Counter, Counters};
use hivemind_core::Descriptor;
use hivemind_core::store::Store;

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
}
