//! Space-Saving sketch (Metwally et al., 2005): the heaviest of many keys in a fixed number of slots. A key without a
//! slot replaces the lightest one and takes its count as the error. Every key above a slot's share of the total is present.

use crate::redact::{redact, redacted_entries};
use hivemind_core::store::Parts;
use serde_json::{Value, json};
use std::collections::HashMap;

/// Slots of each sketch.
pub(super) const PLACES: usize = 256;
/// Longest stored text of a key.
const MOST_ENTRIES: usize = 8;
const LONGEST_TEXT: usize = 128;

/// A domain and entries with truncated texts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeyText {
    domain: String,
    entries: Vec<(String, String)>,
    /// Whether it was truncated: several keys may share this prefix.
    is_short: bool,
    /// Whether a value is the hash of a credential.
    is_hashed: bool,
}

/// A counted key.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChargedKey<'p> {
    pub(super) hash: u64,
    pub(super) parts: Parts<'p>,
    pub(super) rule: Option<RuleId>,
}

#[derive(Debug, Default)]
pub(super) struct Sketch {
    places: Vec<SketchSlot>,
    by_hash: HashMap<u64, usize>,
}

/// The index of a rule and the number of its rule set: each load assigns new indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RuleId {
    pub rules: u64,
    pub number: usize,
}

#[derive(Debug)]
struct SketchSlot {
    hash: u64,
    count: u64,
    /// Part of the count that may belong to other keys.
    error: u64,
    parts: KeyText,
    /// The rule of the last request.
    rule: Option<RuleId>,
}

/// A key with its count.
#[derive(Debug)]
pub(super) struct KeyCount {
    pub(super) count: u64,
    pub(super) error: u64,
    pub(super) parts: KeyText,
    rule: Option<RuleId>,
}

/// Merges the rows of a key that several limits count, or that another limit counted before a reload.
pub(super) fn merge_equal_keys(mut all: Vec<KeyCount>) -> Vec<KeyCount> {
    all.sort_by(|one, other| one.parts.cmp(&other.parts).then(other.count.cmp(&one.count)));
    all.dedup_by(|next, first| {
        let is_same = !next.parts.is_short && next.parts == first.parts;
        if is_same {
            first.count = first.count.saturating_add(next.count);
            first.error = first.error.saturating_add(next.error);
            let is_newer = first.rule.map(|rule| rule.rules) < next.rule.map(|rule| rule.rules);
            first.rule = if is_newer { next.rule } else { first.rule };
        }
        is_same
    });
    all
}

impl KeyCount {
    /// `rules` is the active rule set; indices of other sets are ignored.
    pub(super) fn shown(&self, rules: u64) -> Value {
        let rule = self.rule.filter(|rule| rule.rules == rules).map(|rule| rule.number);
        let KeyText { domain, entries, is_short, is_hashed } = &self.parts;
        let entries = redacted_entries(entries.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        json!({
            "domain": domain,
            "entries": entries,
            "count": self.count,
            "error": self.error,
            "is_cut": *is_short || *is_hashed,
            "rule": rule,
        })
    }
}

impl Sketch {
    /// `others`: hits of unknown keys that are counted here.
    pub(super) fn record(&mut self, key: &ChargedKey<'_>, amount: u64, others: u64) {
        let ChargedKey { hash, parts, rule } = *key;
        let amount = amount.saturating_add(others);
        if let Some(place) = self.by_hash.get(&hash).and_then(|index| self.places.get_mut(*index)) {
            place.count = place.count.saturating_add(amount);
            place.error = place.error.saturating_add(others);
            place.rule = rule;
            return;
        }
        if self.places.len() < PLACES {
            self.by_hash.insert(hash, self.places.len());
            self.places.push(SketchSlot { hash, count: amount, error: others, parts: readable(parts), rule });
            return;
        }
        let lightest = self.places.iter_mut().enumerate().min_by_key(|(_, place)| place.count);
        let Some((index, place)) = lightest else { return };
        self.by_hash.remove(&place.hash);
        self.by_hash.insert(hash, index);
        let count = place.count.saturating_add(amount);
        let error = place.count.saturating_add(others);
        *place = SketchSlot { hash, count, error, parts: readable(parts), rule };
    }

    /// All keys of both sketches with their summed counts.
    pub(super) fn merged(&self, before: &Self) -> Vec<KeyCount> {
        let counted = |place: &SketchSlot, earlier: Option<&SketchSlot>| KeyCount {
            count: place.count.saturating_add(earlier.map_or(0, |earlier| earlier.count)),
            error: place.error.saturating_add(earlier.map_or(0, |earlier| earlier.error)),
            parts: place.parts.clone(),
            rule: place.rule,
        };
        let of = |sketch: &Self, hash: u64| sketch.by_hash.get(&hash).copied();
        let now = self
            .places
            .iter()
            .map(|place| counted(place, of(before, place.hash).and_then(|index| before.places.get(index))));
        let only_before = before.places.iter().filter(|place| of(self, place.hash).is_none());
        now.chain(only_before.map(|place| counted(place, None))).collect()
    }
}

fn readable(parts: Parts<'_>) -> KeyText {
    let mut is_short = parts.entries.len() > MOST_ENTRIES;
    let mut cut = |text: &str| {
        let kept = text.get(..text.floor_char_boundary(LONGEST_TEXT)).unwrap_or_default();
        is_short |= kept.len() < text.len();
        kept.to_owned()
    };
    let domain = cut(parts.domain);
    let mut is_hashed = false;
    let entries = parts.entries.iter().take(MOST_ENTRIES).map(|(key, value)| {
        let (value, is_another) = redact(key, value);
        is_hashed |= is_another;
        (cut(key), cut(&value))
    });
    let entries = entries.collect();
    KeyText { domain, entries, is_short, is_hashed }
}
