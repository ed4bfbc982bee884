//! A request with its rules: what to charge for it, and what the answers mean.

use super::{Descriptor, Rule};
use crate::decision::Decision;
use crate::key::{Entry, Key, KeySeed, Parts};
use crate::limit::Limit;
use crate::store::{Charge, Mode};
use crate::verdict::Verdicts;
use smallvec::SmallVec;

/// The rule that answers one descriptor.
#[derive(Clone, Debug)]
pub(super) struct Matched<'a> {
    limits: &'a [Limit],
    mode: Mode,
    rule: Option<&'a Rule>,
    entries: &'a [Entry<'a>],
    /// The entries as the counter is named, where a wildcard's values share one.
    shared: Option<SmallVec<[Entry<'a>; 4]>>,
}

impl<'a> Matched<'a> {
    pub(super) fn nothing(entries: &'a [Entry<'a>]) -> Self {
        Self { limits: &[], mode: Mode::Enforce, rule: None, entries, shared: None }
    }

    pub(super) fn ruled(&mut self, rule: &'a Rule) {
        self.limits = rule.limits().unwrap_or_default();
        self.mode = rule.mode;
        self.rule = Some(rule);
    }

    pub(super) fn brought(&mut self, limit: &'a Limit) {
        self.limits = std::slice::from_ref(limit);
    }

    pub(super) fn share(&mut self, index: usize, pattern: &'a str) {
        let entries = self.shared.get_or_insert_with(|| self.entries.into());
        if let Some((_, value)) = entries.get_mut(index) {
            *value = pattern;
        }
    }

    fn parts(&self, domain: &'a str) -> Parts<'_> {
        Parts { domain, entries: self.shared.as_deref().unwrap_or(self.entries) }
    }
}

/// A request of which every descriptor has found its rule, or none.
#[derive(Clone, Debug)]
pub struct Resolved<'a> {
    domain: &'a str,
    descriptors: &'a [Descriptor<'a>],
    matched: SmallVec<[Matched<'a>; 2]>,
}

impl<'a> Resolved<'a> {
    pub(super) fn new(
        domain: &'a str,
        descriptors: &'a [Descriptor<'a>],
        mut matched: SmallVec<[Matched<'a>; 2]>,
    ) -> Self {
        leave_replaced_aside(&mut matched);
        Self { domain, descriptors, matched }
    }

    /// The rule that answers each descriptor, in order.
    pub fn rules(&self) -> impl Iterator<Item = Option<&'a Rule>> + '_ {
        self.matched.iter().map(|matched| matched.rule)
    }

    /// What to charge: one charge for each limit of each descriptor, in order.
    #[must_use]
    pub fn charges(&self, seed: &KeySeed) -> SmallVec<[Charge<'_>; 2]> {
        let mut charges = SmallVec::new();
        for (descriptor, matched) in self.descriptors.iter().zip(&self.matched) {
            let parts = matched.parts(self.domain);
            for (index, limit) in matched.limits.iter().enumerate() {
                let earlier = matched.limits.iter().take(index);
                let ordinal = earlier.filter(|earlier| earlier.counts_like(limit)).count();
                let key = Key::new(seed, parts, limit, u16::try_from(ordinal).unwrap_or(u16::MAX));
                let Descriptor { cost, op, .. } = *descriptor;
                charges.push(Charge { key, parts, limit, cost, op, mode: matched.mode });
            }
        }
        charges
    }

    /// What the verdicts on these charges mean for the request.
    #[must_use]
    pub fn decision(charges: &[Charge<'_>], verdicts: &Verdicts) -> Decision {
        Decision::new(charges, verdicts)
    }
}

/// Drops every rule whose name another rule of the same request replaces: it is not charged.
fn leave_replaced_aside(matched: &mut [Matched<'_>]) {
    let replaced: SmallVec<[&str; 4]> = matched
        .iter()
        .filter_map(|matched| matched.rule)
        .flat_map(|rule| rule.replaces.iter().map(String::as_str))
        .collect();
    if replaced.is_empty() {
        return;
    }
    for matched in matched {
        let name = matched.rule.and_then(|rule| rule.name.as_deref());
        if name.is_some_and(|name| replaced.contains(&name)) {
            *matched = Matched::nothing(matched.entries);
        }
    }
}
