//! Index of a key's wildcard patterns, searched without trying each. Patterns with the
//! same beginning and end form a group, found by one hash per pair of lengths in use.
//! Within a group, one pass over the value finds the patterns whose middle occurs in it.
//! Only those are tried, however many patterns there are.

use super::node::RuleNode;
use super::pattern::WildcardPattern;
use aho_corasick::AhoCorasick;
use hashbrown::{Equivalent, HashMap};
use std::hash::{Hash, RandomState};
use std::sync::OnceLock;

/// A smaller group is searched by trying each pattern.
const SMALL_GROUP: usize = 8;

/// The beginning and end of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Ends(Box<str>, Box<str>);

#[derive(Hash)]
struct EndsOf<'a>(&'a str, &'a str);

impl Equivalent<Ends> for EndsOf<'_> {
    fn equivalent(&self, ends: &Ends) -> bool {
        *self.0 == *ends.0 && *self.1 == *ends.1
    }
}

/// The patterns with the same beginning and end, by position in the order of declaration.
#[derive(Clone, Debug, Default)]
struct PatternGroup {
    places: Vec<usize>,
    /// Finds the patterns' longest middles; built by the first search, when the group is complete.
    middles: OnceLock<Option<AhoCorasick>>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Wildcards {
    /// In the order of declaration: the first that matches answers.
    declared: Vec<(WildcardPattern, RuleNode)>,
    groups: HashMap<Ends, PatternGroup, RandomState>,
    /// The pairs of lengths that occur in `groups`.
    lengths: Vec<(usize, usize)>,
}

impl Wildcards {
    /// The node of a pattern, created by `make` where none exists yet.
    pub(super) fn node(&mut self, text: &str, make: impl FnOnce() -> RuleNode) -> &mut RuleNode {
        let pattern = WildcardPattern::new(text);
        let (start, end) = pattern.ends();
        let lengths = (start.len(), end.len());
        let group = self.groups.entry(Ends(start.into(), end.into())).or_default();
        let same = |place: &&usize| self.declared.get(**place).is_some_and(|(known, _)| known.text() == text);
        let place = group.places.iter().find(same).copied().unwrap_or_else(|| {
            group.places.push(self.declared.len());
            group.middles = OnceLock::new();
            if !self.lengths.contains(&lengths) {
                self.lengths.push(lengths);
            }
            self.declared.push((pattern, make()));
            self.declared.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "found, or pushed just above")]
        &mut self.declared[place].1
    }

    /// The node of the first declared pattern that matches.
    pub(super) fn find(&self, value: &str) -> Option<&RuleNode> {
        let first = self.lengths.iter().filter_map(|(start, end)| {
            let tail = value.len().checked_sub(*end)?;
            let ends = EndsOf(value.get(..*start)?, value.get(tail..)?);
            self.first_in(self.groups.get(&ends)?, value)
        });
        self.declared.get(first.min()?).map(|(_, node)| node)
    }

    fn first_in(&self, group: &PatternGroup, value: &str) -> Option<usize> {
        let matches =
            |place: &usize| self.declared.get(*place).is_some_and(|(pattern, _)| pattern.matches(value));
        let middles = group.middles.get_or_init(|| self.middles(group));
        let Some(middles) = middles else { return group.places.iter().copied().find(matches) };
        let found = middles.find_overlapping_iter(value).map(|found| found.pattern().as_usize());
        found.filter_map(|number| group.places.get(number).copied()).filter(matches).min()
    }

    /// None for a small group, and for more middles than the searcher supports.
    fn middles(&self, group: &PatternGroup) -> Option<AhoCorasick> {
        let middle =
            |place: &usize| self.declared.get(*place).map_or("", |(pattern, _)| pattern.longest_middle());
        let large = group.places.len() > SMALL_GROUP;
        large.then(|| AhoCorasick::new(group.places.iter().map(middle)).ok()).flatten()
    }

    /// All patterns, in the order of declaration.
    pub(super) fn all(&self) -> impl Iterator<Item = &(WildcardPattern, RuleNode)> {
        self.declared.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::{RuleNode, WildcardPattern, Wildcards};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn wildcard_search_finds_first_declared_match(
            patterns in prop::collection::vec("[ab*é]{0,4}\\*[ab*é]{0,4}", 0..40),
            value in "[abé]{0,8}",
        ) {
            // Fails with `first.max()` in `find`, `first_in` without `matches`, or its last `min` as `max`.
            let mut wildcards = Wildcards::default();
            for (number, text) in patterns.iter().enumerate() {
                wildcards.node(text, || RuleNode::numbered(number));
            }
            let tried = patterns.iter().position(|text| WildcardPattern::new(text).matches(&value));
            prop_assert_eq!(wildcards.find(&value).and_then(RuleNode::declared), tried);
        }
    }

    #[test]
    fn wildcard_search_tries_one_of_ten_thousand_patterns() {
        for (pattern, value) in [("/tenant-{}/*", "/tenant-07777/a/b"), ("*/tenant-{}/*", "a/tenant-07777/b")]
        {
            let mut wildcards = Wildcards::default();
            for number in 0..10_000 {
                wildcards
                    .node(&pattern.replace("{}", &format!("{number:05}")), || RuleNode::numbered(number));
            }
            assert_eq!(wildcards.lengths.len(), 1, "one look-up by hash");
            let group = wildcards.groups.values().max_by_key(|group| group.places.len()).unwrap();
            let tried = match wildcards.middles(group) {
                Some(middles) => middles.find_overlapping_iter(value).count(),
                None => group.places.len(),
            };
            assert_eq!(tried, 1, "{pattern}");
            assert_eq!(wildcards.find(value).and_then(RuleNode::declared), Some(7_777));
        }
    }
}
