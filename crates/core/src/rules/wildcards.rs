//! Index of a key's wildcard patterns, searched without trying each. Patterns with the
//! same beginning and end form a group, found by one hash per pair of lengths in use.
//! Within a group, one pass over the value finds the patterns whose middle occurs in it.
//! Only those are tried, however many patterns there are.

#[cfg(test)]
mod tests;

use super::RuleError;
use super::middle_index::MiddleIndex;
use super::node::RuleNode;
use super::pattern::WildcardPattern;
use hashbrown::{Equivalent, HashMap, HashTable};
use std::hash::{BuildHasher, Hash, RandomState};

/// A smaller group is searched by trying each pattern.
const SMALL_GROUP: usize = 8;
/// Patterns of one key below one rule.
const MOST_PATTERNS: usize = 20_000;
/// Pairs of lengths before the first star and after the last. Each costs every request one look-up.
const MOST_LENGTHS: usize = 1_000;
/// Bytes of one pattern.
const LONGEST_PATTERN: usize = 1_024;

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
    places: Vec<u32>,
    /// Finds the patterns' longest middles; none while the group is small.
    middles: Option<MiddleIndex>,
}

/// A search has no state: everything that it needs is built when a pattern is added. `find` takes `&self`, and no field
/// can change behind it.
#[derive(Clone, Debug, Default)]
pub(super) struct Wildcards {
    /// In the order of declaration: the first that matches answers.
    declared: Vec<(WildcardPattern, RuleNode)>,
    /// Places in `declared`, by the pattern's text.
    known: HashTable<u32>,
    hasher: RandomState,
    groups: HashMap<Ends, PatternGroup, RandomState>,
    /// The pairs of lengths that occur in `groups`.
    lengths: Vec<(usize, usize)>,
}

impl Wildcards {
    /// The node of a pattern, created by `make` where none exists yet.
    pub(super) fn node(
        &mut self,
        text: &str,
        make: impl FnOnce() -> RuleNode,
    ) -> Result<&mut RuleNode, RuleError> {
        let Self { declared, known, hasher, .. } = self;
        let is_same = |place: &u32| text_of(declared, *place) == text;
        let place = match known.find(hasher.hash_one(text), is_same) {
            Some(place) => *place,
            None => self.add(text, make)?,
        };
        let node = usize::try_from(place).ok().and_then(|place| self.declared.get_mut(place));
        node.map(|(_, node)| node).ok_or(RuleError::TooManyPatterns { most: MOST_PATTERNS })
    }

    fn add(&mut self, text: &str, make: impl FnOnce() -> RuleNode) -> Result<u32, RuleError> {
        self.check(text)?;
        let pattern = WildcardPattern::new(text);
        let too_many = RuleError::TooManyPatterns { most: MOST_PATTERNS };
        let place = u32::try_from(self.declared.len()).map_err(|_| too_many)?;
        let lengths = lengths_of(&pattern);
        if !self.lengths.contains(&lengths) {
            self.lengths.push(lengths);
        }
        let (start, end) = pattern.ends();
        let group = self.groups.entry(Ends(start.into(), end.into())).or_default();
        group.places.push(place);
        let hash = self.hasher.hash_one(pattern.text());
        self.declared.push((pattern, make()));
        let (declared, hasher) = (&self.declared, &self.hasher);
        self.known.insert_unique(hash, place, |place| hasher.hash_one(text_of(declared, *place)));
        group.index_middles(declared);
        Ok(place)
    }

    /// The node of the first declared pattern that matches.
    pub(super) fn find(&self, value: &str) -> Option<&RuleNode> {
        let first = self.lengths.iter().filter_map(|(start, end)| {
            let tail = value.len().checked_sub(*end)?;
            let ends = EndsOf(value.get(..*start)?, value.get(tail..)?);
            let inside = value.get(*start..tail)?;
            self.first_in(self.groups.get(&ends)?, value, inside)
        });
        let first = usize::try_from(first.min()?).ok()?;
        self.declared.get(first).map(|(_, node)| node)
    }

    /// The first matching pattern of a group; `inside` is the value without the group's beginning and end.
    fn first_in(&self, group: &PatternGroup, value: &str, inside: &str) -> Option<u32> {
        let pattern = |place: u32| usize::try_from(place).ok().and_then(|place| self.declared.get(place));
        let Some(middles) = &group.middles else {
            let matches = |place: &u32| pattern(*place).is_some_and(|(pattern, _)| pattern.matches(value));
            return group.places.iter().copied().find(matches);
        };
        let mut first: Option<u32> = None;
        middles.search(inside, |place| {
            // A pattern with one middle matches wherever that occurs; others are tried.
            let matches = || {
                pattern(place).is_some_and(|(pattern, _)| pattern.has_one_middle() || pattern.matches(value))
            };
            if first.is_none_or(|first| place < first) && matches() {
                first = Some(place);
            }
        });
        first
    }

    /// Whether there is room for a pattern.
    pub(super) fn check(&self, text: &str) -> Result<(), RuleError> {
        if text.len() > LONGEST_PATTERN {
            return Err(RuleError::LongPattern { most: LONGEST_PATTERN });
        }
        if self.declared.len() >= MOST_PATTERNS {
            return Err(RuleError::TooManyPatterns { most: MOST_PATTERNS });
        }
        if self.lengths.len() >= MOST_LENGTHS
            && !self.lengths.contains(&lengths_of(&WildcardPattern::new(text)))
        {
            return Err(RuleError::TooManyPatternLengths { most: MOST_LENGTHS });
        }
        Ok(())
    }

    /// The node of a pattern, if it is declared.
    pub(super) fn get(&self, text: &str) -> Option<&RuleNode> {
        let is_same = |place: &u32| text_of(&self.declared, *place) == text;
        let place = self.known.find(self.hasher.hash_one(text), is_same)?;
        self.declared.get(usize::try_from(*place).ok()?).map(|(_, node)| node)
    }

    /// All patterns, in the order of declaration.
    pub(super) fn all(&self) -> impl Iterator<Item = &(WildcardPattern, RuleNode)> {
        self.declared.iter()
    }
}

impl PatternGroup {
    /// Adds the last pattern of the group to the index, or all of them when the group stops being small.
    fn index_middles(&mut self, declared: &[(WildcardPattern, RuleNode)]) {
        let missing = match (self.places.len(), &self.middles) {
            (..=SMALL_GROUP, _) => return,
            (_, None) => 0,
            (count, Some(_)) => count - 1,
        };
        let middles = self.middles.get_or_insert_default();
        for place in self.places.iter().skip(missing) {
            let pattern = usize::try_from(*place).ok().and_then(|place| declared.get(place));
            middles.add(pattern.map_or("", |(pattern, _)| pattern.longest_middle()), *place);
        }
    }
}

/// The lengths of the texts before the first star and after the last.
fn lengths_of(pattern: &WildcardPattern) -> (usize, usize) {
    let (start, end) = pattern.ends();
    (start.len(), end.len())
}

fn text_of(declared: &[(WildcardPattern, RuleNode)], place: u32) -> &str {
    let pattern = usize::try_from(place).ok().and_then(|place| declared.get(place));
    pattern.map_or("", |(pattern, _)| pattern.text())
}
