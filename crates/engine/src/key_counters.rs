//! Counters of one key under the active limits: what an operator inspects, refunds and resets.

use crate::block_list::KeyName;
use hivemind_core::store::{Charge, Context, Key, Mode, Op, Parts, Sharing};
use hivemind_core::{Cost, Entry, Limit, Timestamp};
use std::time::Duration;

/// How long a store may take to answer an operator.
const PATIENCE: Duration = Duration::from_secs(10);

/// The counters of one key.
#[derive(Debug)]
pub struct KeyCounters {
    /// The name under which it is counted: values that share a counter by a wildcard are replaced by the
    /// pattern.
    pub name: KeyName,
    /// Number of the matching rule, if there is one.
    pub rule: Option<usize>,
    pub each: Vec<KeyCounter>,
}

/// One counter of a key.
#[derive(Debug)]
pub struct KeyCounter {
    pub key: Key,
    pub limit: Limit,
    pub ordinal: u16,
    pub mode: Mode,
    pub sharing: Sharing,
}

impl KeyCounters {
    /// One batch that applies `op` to all counters.
    pub fn batch<'a>(&'a self, entries: &'a [Entry<'a>], op: Op, cost: Cost) -> Vec<Charge<'a>> {
        let parts = Parts { domain: self.name.domain(), entries };
        let charge = |counter: &'a KeyCounter| {
            let KeyCounter { key, limit, ordinal, mode, sharing } = counter;
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

    /// Context of an operator's batch.
    pub fn context(now: Timestamp) -> Context {
        Context { deadline: Some(now.saturating_add(PATIENCE)), ..Context::at(now) }
    }
}
