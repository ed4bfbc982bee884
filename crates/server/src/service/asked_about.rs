//! What an operator asks about a key: which counters it has. Nothing is decided, and nothing of it is counted or told.

use super::Service;
use crate::blocks::{KeyName, Posted};
use crate::counters::{Counter, Counters};
use hivemind_core::store::{Key, Store};
use hivemind_core::{Descriptor, Limit, Period};

impl<R: Store> Service<R> {
    /// Whether anything is limited at all.
    pub(crate) fn is_enabled(&self) -> bool {
        self.options.enabled
    }

    /// What a key is called where nobody is to read who it is: a hash under the seed that counters are hashed with, so that
    /// whoever knows the key finds it in the log, and whoever has the log finds no key.
    pub(crate) fn id_of(&self, name: &KeyName) -> String {
        self.id_of_posted(&name.posted())
    }

    /// The same of a key as the board has it.
    pub(crate) fn id_of_posted(&self, name: &Posted) -> String {
        // Of no limit's counter, so that it stays when the limits change.
        let limit = Limit::fixed_window(1, Period::SECOND);
        let key = name.with_told_parts(|parts| Key::new(&self.seed, parts, &limit, u16::MAX));
        format!("{:016x}", key.bits().1)
    }

    /// The counters that a descriptor of these entries is charged to, by the rules in force.
    pub(crate) fn counters_of(&self, asked: &KeyName) -> Counters {
        let in_force = self.in_force.load_full();
        let entries = asked.entries();
        let descriptors = [Descriptor::new(&entries)];
        let resolved = in_force.ruleset.rules.resolve(asked.domain(), &descriptors);
        let charges = self.charges(&resolved);
        let rule = resolved.rule_matches().next().and_then(|ruling| ruling.declared);
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
