//! Precomputed key prefixes of all rules; see [`KeyPrefix`].

use super::Declaration;
use crate::key::{KeyPrefix, KeySeed};
use crate::limit::Limit;

/// The prefix of a limit's keys, with the ordinal that is part of it.
pub(super) type LimitPrefix = (KeyPrefix, u16);

/// The prefixes of all limits of all rules, under one seed.
#[derive(Clone, Debug)]
pub(super) struct Prefixes {
    seed: KeySeed,
    /// By declaration number, then in the order of its limits.
    declared: Vec<Box<[LimitPrefix]>>,
}

impl Prefixes {
    pub(super) fn new<'d>(seed: KeySeed, declared: impl IntoIterator<Item = &'d Declaration>) -> Self {
        Self { seed, declared: declared.into_iter().map(|declared| of(&seed, declared)).collect() }
    }

    /// The prefixes of a declaration's limits; empty where they were computed under another seed.
    pub(super) fn under(&self, seed: &KeySeed, number: usize) -> &[LimitPrefix] {
        match self.declared.get(number) {
            Some(prefixes) if self.seed == *seed => prefixes,
            _ => &[],
        }
    }
}

fn of(seed: &KeySeed, declared: &Declaration) -> Box<[LimitPrefix]> {
    let limits = declared.rule.as_ref().and_then(|rule| rule.limits()).unwrap_or_default();
    let prefix = |(index, limit)| {
        let keys = declared.path.iter().map(|matcher| &*matcher.key);
        let ordinal = ordinal(limits, index);
        (KeyPrefix::new(seed, &declared.domain, keys, limit, ordinal), ordinal)
    };
    limits.iter().enumerate().map(prefix).collect()
}

/// The position of a limit among those of its rule that would otherwise share its counter.
pub(super) fn ordinal(limits: &[Limit], index: usize) -> u16 {
    let Some(limit) = limits.get(index) else { return 0 };
    let alike = limits.iter().take(index).filter(|earlier| earlier.counts_like(limit)).count();
    u16::try_from(alike).unwrap_or(u16::MAX)
}
