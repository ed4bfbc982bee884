//! The counters of one key, by the limits in force: what an operator looks at, gives back to, and resets.

use crate::blocks::KeyName;
use hivemind_core::store::{Charge, Context, Key, Mode, Op, Parts, Sharing};
use hivemind_core::{Cost, Entry, Limit, Timestamp};
use std::time::Duration;

/// How long a store may take for an operator.
const PATIENCE: Duration = Duration::from_secs(10);

/// The counters of one key.
#[derive(Debug)]
pub(crate) struct Counters {
    /// Its name as it is counted: where a wildcard's values share a counter, the pattern is in their place.
    pub(crate) name: KeyName,
    /// The number of its rule, if one answers.
    pub(crate) rule: Option<usize>,
    pub(crate) each: Vec<Counter>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Counter {
    pub(crate) key: Key,
    pub(crate) limit: Limit,
    pub(crate) ordinal: u16,
    pub(crate) mode: Mode,
    pub(crate) sharing: Sharing,
}

impl Counters {
    /// The same thing done to all of them, in one batch.
    pub(crate) fn batch<'a>(&'a self, entries: &'a [Entry<'a>], op: Op, cost: Cost) -> Vec<Charge<'a>> {
        let parts = Parts { domain: self.name.domain(), entries };
        let charge = |counter: &'a Counter| {
            let Counter { key, limit, ordinal, mode, sharing } = counter;
            Charge {
                ordinal: *ordinal,
                cost,
                op,
                mode: *mode,
                sharing: *sharing,
                ..Charge::spend(*key, parts, limit)
            }
        };
        self.each.iter().map(charge).collect()
    }

    /// What a store is told for an operator.
    pub(crate) fn context(now: Timestamp) -> Context {
        Context { deadline: Some(now.saturating_add(PATIENCE)), ..Context::at(now) }
    }
}
