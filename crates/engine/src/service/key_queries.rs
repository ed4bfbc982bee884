//! Operator queries: the counters and the id of a key. They do not decide, and are not counted or logged.

use super::Service;
use crate::block_list::{KeyName, StoredKeyName};
use crate::key_counters::{KeyCounter, KeyCounters};
use hivemind_core::store::{Key, Store};
use hivemind_core::{Descriptor, Limit, Period};

impl<R: Store> Service<R> {
    /// Whether rate limiting is enabled.
    pub fn is_enabled(&self) -> bool {
        self.options.enabled
    }

    /// Pseudonym of a key in logs: a hash with the seed of the counters. An operator who knows the key finds it in the
    /// log, but the log does not reveal keys.
    pub fn id_of(&self, name: &KeyName) -> String {
        self.id_of_stored(&name.stored())
    }

    /// Like [`Service::id_of`], for a key as stored on the board.
    pub fn id_of_stored(&self, name: &StoredKeyName) -> String {
        // Not derived from a real limit, so the id does not change with the limits.
        let limit = Limit::fixed_window(1, Period::SECOND);
        let key = name.with_shown_parts(|parts| Key::new(&self.seed, parts, &limit, u16::MAX));
        format!("{:016x}", key.bits().1)
    }

    /// The counters that a descriptor with these entries is charged to under the active rules.
    pub fn counters_of(&self, requested: &KeyName) -> KeyCounters {
        let active = self.active.load_full();
        let entries = requested.entries();
        let descriptors = [Descriptor::new(&entries)];
        let resolved = active.ruleset.rules.resolve(requested.domain(), &descriptors);
        let charges = self.charges(&resolved);
        let rule = resolved.rule_matches().next().and_then(|rule_match| rule_match.declared);
        let name = charges.first().map_or_else(|| requested.clone(), |charge| KeyName::of(charge.parts));
        let each = charges.iter().map(|charge| KeyCounter {
            key: charge.key,
            limit: *charge.limit,
            ordinal: charge.ordinal,
            mode: charge.mode,
            sharing: charge.sharing,
        });
        KeyCounters { name, rule, each: each.collect() }
    }
}
