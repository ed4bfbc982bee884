//! The wildcards of one key, found without trying each: by what a pattern begins
//! and ends with. A look-up costs one hash for each pair of lengths in use, however
//! many patterns there are, and a try of each pattern with the same beginning and end.

use super::node::Node;
use super::pattern::Pattern;
use hashbrown::{Equivalent, HashMap};
use std::hash::{Hash, RandomState};

/// What a pattern begins and ends with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Ends(Box<str>, Box<str>);

#[derive(Hash)]
struct EndsOf<'a>(&'a str, &'a str);

impl Equivalent<Ends> for EndsOf<'_> {
    fn equivalent(&self, ends: &Ends) -> bool {
        *self.0 == *ends.0 && *self.1 == *ends.1
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Wildcards {
    /// In the order of declaration: the first that matches answers.
    declared: Vec<(Pattern, Node)>,
    /// The places in `declared` of the patterns with these ends, in order.
    by_ends: HashMap<Ends, Vec<usize>, RandomState>,
    /// The pairs of lengths that occur in `by_ends`.
    lengths: Vec<(usize, usize)>,
}

impl Wildcards {
    /// The node of a pattern, made by `make` where there is none yet.
    pub(super) fn node(&mut self, text: &str, make: impl FnOnce() -> Node) -> &mut Node {
        let pattern = Pattern::new(text);
        let (start, end) = pattern.ends();
        let lengths = (start.len(), end.len());
        let places = self.by_ends.entry(Ends(start.into(), end.into())).or_default();
        let same = |place: &&usize| self.declared.get(**place).is_some_and(|(known, _)| known.text() == text);
        let place = places.iter().find(same).copied().unwrap_or_else(|| {
            places.push(self.declared.len());
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
    pub(super) fn find(&self, value: &str) -> Option<&Node> {
        let candidates = self.lengths.iter().filter_map(|(start, end)| {
            let tail = value.len().checked_sub(*end)?;
            let ends = EndsOf(value.get(..*start)?, value.get(tail..)?);
            let places = self.by_ends.get(&ends)?;
            places.iter().copied().find(|place| self.matches(*place, value))
        });
        let first = candidates.min()?;
        self.declared.get(first).map(|(_, node)| node)
    }

    /// All patterns, in the order of declaration.
    pub(super) fn all(&self) -> impl Iterator<Item = &(Pattern, Node)> {
        self.declared.iter()
    }

    fn matches(&self, place: usize, value: &str) -> bool {
        self.declared.get(place).is_some_and(|(pattern, _)| pattern.matches(value))
    }
}

#[cfg(test)]
mod tests {
    use super::{Node, Pattern, Wildcards};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_declared_match_is_found_as_if_each_had_been_tried(
            patterns in prop::collection::vec("[ab*é]{0,4}\\*[ab*é]{0,4}", 0..12),
            value in "[abé]{0,8}",
        ) {
            // Seen failing on: `find` with `max` for `min`, and without the last `filter` by `matches`.
            let mut wildcards = Wildcards::default();
            for (number, text) in patterns.iter().enumerate() {
                wildcards.node(text, || Node::numbered(number));
            }
            let tried = patterns.iter().position(|text| Pattern::new(text).matches(&value));
            prop_assert_eq!(wildcards.find(&value).and_then(Node::declared), tried);
        }
    }

    #[test]
    fn ten_thousand_patterns_cost_as_many_look_ups_as_they_have_lengths() {
        let mut wildcards = Wildcards::default();
        for number in 0..10_000 {
            wildcards.node(&format!("/tenant-{number:05}/*"), || Node::numbered(number));
        }
        assert_eq!(wildcards.lengths, [(14, 0)]);
        assert_eq!(wildcards.find("/tenant-07777/a/b").and_then(Node::declared), Some(7_777));
    }
}
