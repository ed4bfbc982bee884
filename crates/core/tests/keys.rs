//! Counter identity: names and limits that share a key, and those that never do.
#![expect(clippy::unwrap_used, reason = "a test helper may panic")]

use hivemind_core::store::{Key, KeyPrefix, KeySeed, Parts};
use hivemind_core::testing::{cases, limits};
use hivemind_core::{Entry, Limit, Period, Rate};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashMap;

fn seed() -> KeySeed {
    KeySeed::new(*b"sixteen bytes ..")
}

fn bucket(requests: u32, period: Period, burst: u32) -> Limit {
    Limit::token_bucket(Rate::new(requests, period).unwrap(), burst).unwrap()
}

fn key(domain: &str, entries: &[Entry<'_>], limit: &Limit) -> Key {
    Key::new(&seed(), Parts { domain, entries }, limit, 0)
}

// Fails when parts are hashed without their lengths.
#[test]
fn names_that_are_equal_when_joined_have_different_keys() {
    let names: [(&str, &[Entry<'_>]); 14] = [
        ("d", &[]),
        ("", &[("d", "")]),
        ("d", &[("a_b", "c")]),
        ("d", &[("a", "b_c")]),
        ("d_a", &[("b", "c")]),
        ("d", &[("ab", "")]),
        ("d", &[("a", "b")]),
        ("d", &[("", "ab")]),
        ("da", &[("b", "")]),
        ("d", &[("a", "b"), ("c", "d")]),
        ("d", &[("c", "d"), ("a", "b")]),
        ("d", &[("a", "b"), ("c", "d"), ("", "")]),
        ("d", &[("a", "bc"), ("", "d")]),
        ("d", &[("a", "b\u{0}c")]),
    ];
    let limit = Limit::fixed_window(1, Period::SECOND);
    let mut keys = HashMap::new();
    for name in names {
        assert_eq!(keys.insert(key(name.0, name.1, &limit), name), None, "{name:?} shares a counter");
    }
}

// Fails when the burst is part of the key; a bucket's period is part of the key.
#[test]
fn changed_limit_keeps_its_key_and_changed_kind_does_not() {
    let (second, minute) = (Period::SECOND, Period::MINUTE);
    let entries = [("user", "1")];
    let same: [&[Limit]; 5] = [
        &[bucket(1, second, 1), bucket(9, second, 1), bucket(1, second, 9), bucket(1, minute, 1)],
        &[Limit::fixed_window(0, second), Limit::fixed_window(u32::MAX, second)],
        &[Limit::fixed_window(1, minute), Limit::fixed_window(2, Period::SECOND.times(60).unwrap())],
        &[Limit::sliding_window(1, second), Limit::sliding_window(2, second)],
        &[Limit::sliding_window(1, minute)],
    ];
    let mut kinds = HashMap::new();
    for (kind, limits) in same.iter().enumerate() {
        for limit in *limits {
            let first = *kinds.entry(key("d", &entries, limit)).or_insert(kind);
            assert_eq!(first, kind, "{limit} shares a counter with {}", same[first][0]);
        }
    }
    assert_eq!(kinds.len(), same.len(), "a changed limit lost its counter");
}

// Fails when keys do not depend on the seed.
#[test]
fn equal_seeds_agree_and_others_do_not() {
    let limit = bucket(1, Period::SECOND, 1);
    let parts = Parts { domain: "d", entries: &[("a", "b")] };
    let of = |seed: KeySeed| Key::new(&seed, parts, &limit, 0);
    assert_eq!(of(KeySeed::new([1; 16])), of(KeySeed::new([1; 16])));
    assert_ne!(of(KeySeed::new([1; 16])), of(KeySeed::new([2; 16])));
    assert_eq!(of(KeySeed::from_cluster_id("a")), of(KeySeed::from_cluster_id("a")));
    assert_ne!(of(KeySeed::from_cluster_id("a")), of(KeySeed::from_cluster_id("b")));
    assert_eq!(format!("{:?}", KeySeed::new([7; 16])), "KeySeed(..)", "the secret is not printed");
}

// Fails when parts are hashed without their lengths; the burst is part of the key; a bucket's period
// is part of the key.
#[test]
fn key_is_stable_across_nodes_and_versions() {
    // Nodes of different versions share counters: a change to the bits resets every counter of a cluster.
    let bits = key("d", &[("user", "1")], &bucket(1, Period::SECOND, 1)).bits();
    assert_eq!(bits, (BITS_HIGH, BITS_LOW), "{bits:?}");
    assert_eq!(Key::from_bits(bits.0, bits.1).bits(), bits);
}

const BITS_HIGH: u64 = 8_647_402_352_832_036_788;
const BITS_LOW: u64 = 12_400_027_256_910_039_658;

type Name = (String, Vec<(String, String)>, u16);

fn names() -> impl Strategy<Value = Name> {
    // One letter: many names are equal when joined.
    let part = || "a{0,2}";
    (part(), vec((part(), part()), 0..3), 0..3_u16)
}

proptest! {
    #![proptest_config(cases(4_000))]

    // Fails when parts are hashed without their lengths; the ordinal is left out of the key.
    #[test]
    fn keys_are_equal_exactly_if_their_parts_are(one in names(), other in names(), limit in limits()) {
        let key = |(domain, entries, ordinal): &Name| {
            let entries: Vec<Entry<'_>> = entries.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            Key::new(&seed(), Parts { domain, entries: &entries }, &limit, *ordinal)
        };
        prop_assert_eq!(key(&one) == key(&other), one == other);
    }

    #[test]
    fn key_from_prefix_equals_direct_key(
        domain in ".{0,20}",
        entries in vec((".{0,20}", ".{0,40}"), 0..4),
        limit in limits(),
        ordinal in 0..3_u16,
    ) {
        let entries: Vec<Entry<'_>> = entries.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let prefix = KeyPrefix::new(&seed(), &domain, entries.iter().map(|(key, _)| *key), &limit, ordinal);
        let whole = Key::new(&seed(), Parts { domain: &domain, entries: &entries }, &limit, ordinal);
        prop_assert_eq!(prefix.key(entries.iter().map(|(_, value)| *value)), whole);
    }
}
