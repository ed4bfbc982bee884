//! Most limited keys in constant memory: the space-saving sketch. Each slot counts one
//! key; a new key takes over the slot with the lowest count and inherits the count, so a
//! count is never too low, and too high by at most `error`.

use std::collections::{BTreeSet, HashMap};

const PLACES: usize = 1_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LimitedCount {
    pub(super) limited: u64,
    /// Part of `limited` that may have been inherited from other keys.
    pub(super) error: u64,
}

/// The most limited keys.
#[derive(Debug, Default)]
pub(super) struct MostLimited {
    tallies: HashMap<String, LimitedCount>,
    /// Ordered by count, to find the lowest.
    by_count: BTreeSet<(u64, String)>,
}

impl MostLimited {
    pub(super) fn add(&mut self, name: &str) {
        let inherited = match self.tallies.get(name) {
            Some(tally) => *tally,
            None if self.tallies.len() < PLACES => LimitedCount::default(),
            None => self.drop_least(),
        };
        self.by_count.remove(&(inherited.limited, name.to_owned()));
        let tally = LimitedCount { limited: inherited.limited + 1, error: inherited.error };
        self.by_count.insert((tally.limited, name.to_owned()));
        self.tallies.insert(name.to_owned(), tally);
    }

    /// Removes the key with the lowest count and returns that count.
    fn drop_least(&mut self) -> LimitedCount {
        let Some((limited, name)) = self.by_count.pop_first() else { return LimitedCount::default() };
        self.tallies.remove(&name);
        LimitedCount { limited, error: limited }
    }

    /// The first `count` keys, most limited first, equal counts by name.
    pub(super) fn first(&self, count: usize) -> Vec<(&str, LimitedCount)> {
        let mut all: Vec<(&str, LimitedCount)> =
            self.tallies.iter().map(|(name, tally)| (name.as_str(), *tally)).collect();
        all.sort_by(|(a, x), (b, y)| y.limited.cmp(&x.limited).then_with(|| a.cmp(b)));
        all.truncate(count);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::{LimitedCount, MostLimited, PLACES};

    #[test]
    fn top_finds_the_most_limited_without_undercounting() {
        let mut top = MostLimited::default();
        for round in 0..10 * PLACES {
            top.add(&format!("passer-by {round}"));
            if round % 4 == 0 {
                top.add("heavy");
            }
        }
        assert_eq!(top.tallies.len(), PLACES);
        let (name, LimitedCount { limited, error }) = top.first(1)[0];
        let true_count = 10 * PLACES as u64 / 4;
        assert_eq!(name, "heavy");
        assert!(limited >= true_count && limited - error <= true_count, "{limited} {error}");
    }
}
