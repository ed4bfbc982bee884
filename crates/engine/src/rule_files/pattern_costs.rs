//! Costs of the patterns of one list of descriptors, to warn about lists that make requests slow.

use hivemind_config::problem::TextSpan;
use std::collections::{BTreeMap, BTreeSet};

/// Patterns of one key.
const MANY: usize = 1_000;
/// Pairs of lengths before the first star and after the last. Each costs every request one look-up.
const MANY_LENGTHS: usize = 50;
/// Patterns with several texts between stars: a request may have to try each.
const MANY_TRIED: usize = 100;

/// The patterns of a list, by key.
#[derive(Default)]
pub(super) struct PatternCosts(BTreeMap<Box<str>, KeyCosts>);

struct KeyCosts {
    first: TextSpan,
    patterns: usize,
    tried: usize,
    lengths: BTreeSet<(usize, usize)>,
}

/// A warning: place, cause and remedy.
pub(super) type CostWarning = (TextSpan, String, &'static str);

impl PatternCosts {
    /// Counts a pattern.
    pub(super) fn add(&mut self, key: &str, pattern: &str, place: TextSpan) {
        let start = pattern.find('*').unwrap_or(pattern.len());
        let end = pattern.rfind('*').map_or(0, |star| pattern.len() - star - 1);
        let empty = || KeyCosts { first: place, patterns: 0, tried: 0, lengths: BTreeSet::new() };
        if !self.0.contains_key(key) {
            self.0.insert(key.into(), empty());
        }
        let Some(costs) = self.0.get_mut(key) else { return };
        costs.patterns += 1;
        costs.tried += usize::from(pattern.matches('*').count() > 2);
        costs.lengths.insert((start, end));
    }

    pub(super) fn warnings(self) -> impl Iterator<Item = CostWarning> {
        self.0.into_iter().flat_map(|(key, costs)| {
            let counted = [
                (costs.patterns, MANY, "patterns", "match several values by one pattern, or list exact values"),
                (
                    costs.lengths.len(),
                    MANY_LENGTHS,
                    "pairs of lengths before the first `*` and after the last, each a look-up for every request",
                    "shorten the patterns to equal lengths",
                ),
                (
                    costs.tried,
                    MANY_TRIED,
                    "patterns with more than two `*`, which a request may have to try one by one",
                    "keep the first and the last `*`",
                ),
            ];
            let costly = counted.into_iter().filter(|(count, many, ..)| count > many);
            let first = costs.first;
            costly
                .map(move |(count, _, what, remedy)| {
                    (first, format!("costly: the key `{key}` has {count} {what}"), remedy)
                })
                .collect::<Vec<_>>()
        })
    }
}
