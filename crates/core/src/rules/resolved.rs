//! Resolved requests: the matching rule of each descriptor, and the charges to make.

use super::prefixes::{LimitPrefix, Prefixes, ordinal};
use super::{Descriptor, Rule};
use crate::key::{Entry, Key, KeySeed, Parts};
use crate::limit::Limit;
use crate::store::{Charge, Mode, Sharing};
use smallvec::SmallVec;
use std::ops::Range;

/// The rule that applies to one descriptor.
#[derive(Clone, Debug)]
pub(super) struct DescriptorMatch<'a> {
    declared: Option<usize>,
    limits: &'a [Limit],
    mode: Mode,
    sharing: Sharing,
    rule: Option<&'a Rule>,
    entries: &'a [Entry<'a>],
    /// The entries that name the counter, where a wildcard's values share one.
    shared: Option<SmallVec<[Entry<'a>; 4]>>,
}

impl<'a> DescriptorMatch<'a> {
    pub(super) fn none(entries: &'a [Entry<'a>]) -> Self {
        Self {
            declared: None,
            limits: &[],
            mode: Mode::Enforce,
            sharing: Sharing::default(),
            rule: None,
            entries,
            shared: None,
        }
    }

    pub(super) fn set_rule(&mut self, declared: usize, rule: &'a Rule) {
        self.declared = Some(declared);
        self.limits = rule.limits().unwrap_or_default();
        self.mode = rule.mode;
        self.sharing = rule.sharing;
        self.rule = Some(rule);
    }

    pub(super) fn set_request_limit(&mut self, limit: &'a Limit) {
        self.limits = std::slice::from_ref(limit);
    }

    pub(super) fn share_value(&mut self, index: usize, pattern: &'a str) {
        let entries = self.shared.get_or_insert_with(|| self.entries.into());
        if let Some((_, value)) = entries.get_mut(index) {
            *value = pattern;
        }
    }

    fn parts(&self, domain: &'a str) -> Parts<'_> {
        Parts { domain, entries: self.shared.as_deref().unwrap_or(self.entries) }
    }
}

/// The rule match of one descriptor of a request.
///
/// ```
/// use hivemind_core::{Budget, Descriptor, Limit, Matcher, Period, Rule, Rules};
///
/// let limits = vec![Limit::fixed_window(5, Period::SECOND), Limit::fixed_window(50, Period::HOUR)];
/// let rules = Rules::new().with("shop", &[Matcher::any("user")], Rule::new(Budget::Limits(limits)))?;
/// let descriptors = [Descriptor::new(&[("agent", "curl")]), Descriptor::new(&[("user", "ada")])];
/// let resolved = rules.resolve("shop", &descriptors);
/// let matches: Vec<_> = resolved.rule_matches().collect();
/// assert!(matches[0].rule.is_none() && matches[0].charges.is_empty());
/// assert_eq!((matches[1].declared, matches[1].charges.clone()), (Some(0), 0..2));
/// # Ok::<(), hivemind_core::RuleError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RuleMatch<'a> {
    /// The number of the rule, counted from 0 in the order in which rules were added.
    pub declared: Option<usize>,
    /// The rule; none if nothing matched, another rule replaces it, or the request has its own limit.
    pub rule: Option<&'a Rule>,
    /// The descriptor's entries.
    pub entries: &'a [Entry<'a>],
    /// Its charges, as a range of the request's charges.
    pub charges: Range<usize>,
}

/// A request with the rule match of each descriptor.
///
/// ```
/// use hivemind_core::store::{Context, KeySeed, LocalStore, MemoryStore, StoreOptions};
/// use hivemind_core::{Descriptor, Limit, Matcher, Period, Rule, Rules, Timestamp};
///
/// let rule = Rule::limit(Limit::fixed_window(5, Period::SECOND));
/// let rules = Rules::new().with("shop", &[Matcher::any("user")], rule)?;
/// let descriptors = [Descriptor::new(&[("user", "ada")])];
// The steps of a limiter: find the rules, create the charges, let a store decide.
/// let resolved = rules.resolve("shop", &descriptors);
/// let charges = resolved.charges(&KeySeed::new([7; 16]));
/// let store = MemoryStore::new(StoreOptions::default());
/// assert!(store.decide_now(&charges, Context::at(Timestamp::EPOCH)).committed);
/// # Ok::<(), hivemind_core::RuleError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ResolvedRequest<'a> {
    domain: &'a str,
    descriptors: &'a [Descriptor<'a>],
    matched: SmallVec<[DescriptorMatch<'a>; 2]>,
    prefixes: Option<&'a Prefixes>,
}

impl<'a> ResolvedRequest<'a> {
    pub(super) fn new(
        domain: &'a str,
        descriptors: &'a [Descriptor<'a>],
        mut matched: SmallVec<[DescriptorMatch<'a>; 2]>,
        prefixes: Option<&'a Prefixes>,
    ) -> Self {
        drop_replaced_rules(&mut matched);
        Self { domain, descriptors, matched, prefixes }
    }

    /// The match of each descriptor, in order.
    ///
    /// ```
    /// # use hivemind_core::{Descriptor, Rules};
    /// let descriptors = [Descriptor::new(&[("user", "ada")])];
    /// assert_eq!(Rules::new().resolve("shop", &descriptors).rule_matches().count(), 1); // One per descriptor, even without a rule.
    /// ```
    pub fn rule_matches(&self) -> impl Iterator<Item = RuleMatch<'_>> {
        let mut next = 0;
        self.matched.iter().map(move |matched| {
            let charges = next..next + matched.limits.len();
            next = charges.end;
            let DescriptorMatch { declared, rule, .. } = *matched;
            RuleMatch { declared, rule, entries: matched.entries, charges }
        })
    }

    /// The charges to make: one per limit and descriptor, in order.
    ///
    /// ```
    /// # use hivemind_core::{Descriptor, Rules, store::KeySeed};
    /// let descriptors = [Descriptor::new(&[("user", "ada")])];
    /// assert!(Rules::new().resolve("shop", &descriptors).charges(&KeySeed::new([7; 16])).is_empty());
    /// ```
    #[must_use]
    pub fn charges(&self, seed: &KeySeed) -> SmallVec<[Charge<'_>; 2]> {
        let mut charges = SmallVec::new();
        for (descriptor, matched) in self.descriptors.iter().zip(&self.matched) {
            let parts = matched.parts(self.domain);
            let prefixes = self.prefixes_of(matched, seed);
            for (index, limit) in matched.limits.iter().enumerate() {
                let (key, ordinal) = if let Some((prefix, ordinal)) = prefixes.get(index) {
                    (prefix.key(parts.values()), *ordinal)
                } else {
                    let ordinal = ordinal(matched.limits, index);
                    (Key::new(seed, parts, limit, ordinal), ordinal)
                };
                let Descriptor { cost, op, .. } = *descriptor;
                charges.push(Charge {
                    key,
                    parts,
                    limit,
                    ordinal,
                    cost,
                    op,
                    mode: matched.mode,
                    sharing: matched.sharing,
                });
            }
        }
        charges
    }

    /// Empty for a request's own limit, and where the rules have no seed or a different one.
    fn prefixes_of(&self, matched: &DescriptorMatch<'_>, seed: &KeySeed) -> &'a [LimitPrefix] {
        match (self.prefixes, matched.declared) {
            (Some(prefixes), Some(number)) => prefixes.under(seed, number),
            _ => &[],
        }
    }
}

/// Drops each rule that another rule of the same request replaces by name: it is not charged.
fn drop_replaced_rules(matched: &mut [DescriptorMatch<'_>]) {
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
            *matched = DescriptorMatch::none(matched.entries);
        }
    }
}
