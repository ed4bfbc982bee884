use super::arena::Arena;
use super::record::{self, LONGEST, Truncation};
use super::{DecisionHead, DecisionRing, DescriptorOutcome};
use crate::Frontend;
use crate::redact;
use hivemind_core::{Entry, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;

const HEAD: DecisionHead<'_> =
    DecisionHead { at: Timestamp::from_millis(7), frontend: Frontend::Json, domain: "d", is_denied: true };

fn part<'a>(entries: &'a [Entry<'a>]) -> DescriptorOutcome<'a> {
    DescriptorOutcome {
        entries,
        hits: 1,
        is_over: false,
        rule: Some(3),
        remaining: None,
        has_own_limit: false,
    }
}

fn values(ring: &DecisionRing) -> Vec<String> {
    let snapshot = ring.snapshot();
    let all = snapshot.newest_first();
    all.iter().map(|record| record.read().unwrap().parts[0].entries[0].1.to_owned()).collect()
}

fn record_in(ring: &DecisionRing, thread_number: usize, value: &str, millis: u64) {
    let entries = [("k", value)];
    let head = DecisionHead { at: Timestamp::from_millis(millis), ..HEAD };
    ring.write(thread_number, &head, [part(&entries)].into_iter());
}

fn bytes_of(number: u32, length: usize) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(length, number.to_le_bytes()[0]);
    bytes
}

proptest! {
    // Fails when records in the skipped end stay, when overwritten records stay, or when `most` is ignored.
    #[test]
    fn arena_keeps_newest_records_whole_and_in_order(
        lengths in vec(prop_oneof![3 => 4..20_usize, 1 => 4..64_usize, 1 => Just(64_usize)], 1..300),
        most in 1..20_usize,
    ) {
        let mut arena = Arena::new(most, 64);
        for (number, length) in (0_u32..).zip(&lengths) {
            arena.push(&bytes_of(number, *length));
            let copied = arena.snapshot();
            let kept: Vec<&[u8]> = copied.records().collect();
            prop_assert!(!kept.is_empty() && kept.len() <= most);
            let first = number + 1 - u32::try_from(kept.len()).unwrap();
            for (expected, found) in (first..).zip(&kept) {
                let length = lengths[expected as usize];
                prop_assert_eq!(*found, &bytes_of(expected, length)[..]);
            }
            prop_assert_eq!(copied.has_evicted, first > 0);
        }
    }

    // Fails when a text is cut within a character, or when `MOST_ENTRIES` is ignored.
    #[test]
    fn decoded_record_equals_truncated_decision(
        domain in "\\PC{0,200}",
        entries in vec(("\\PC{0,90}", "\\PC{0,300}"), 0..12),
        parts in 1..12_usize,
        hits: i64,
        remaining: Option<u64>,
        rule in proptest::option::of(0..1_000_usize),
    ) {
        let entries: Vec<Entry<'_>> = entries.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let one = DescriptorOutcome { hits, rule, remaining, ..part(&entries) };
        let mut draft = Vec::new();
        record::write(&mut draft, 9, &DecisionHead { domain: &domain, ..HEAD }, vec![one; parts].into_iter());
        prop_assert!(draft.len() <= LONGEST);
        prop_assert_eq!(record::begin(&draft), Some((9, HEAD.at)));
        let read = record::read(&draft).unwrap();
        prop_assert!(domain.starts_with(read.domain) && read.domain.len() + 4 > domain.len().min(128));
        prop_assert_eq!(read.parts.len(), parts.min(8));
        let mut is_hashed = false;
        let mut is_cut = read.domain.len() < domain.len();
        for found in &read.parts {
            prop_assert_eq!((found.hits, found.remaining, found.rule), (hits, remaining, rule.map(|rule| rule as u64)));
            prop_assert_eq!(found.entries.len(), entries.len().min(8));
            for ((key, value), (whole_key, whole_value)) in found.entries.iter().zip(&entries) {
                // A random key may be the name of a secret.
                let (whole_value, is_another) = redact(whole_key, whole_value);
                is_hashed |= is_another;
                for (text, whole) in [(key, *whole_key), (value, &*whole_value)] {
                    prop_assert!(whole.starts_with(*text) && text.len() <= 128);
                    is_cut |= text.len() < whole.len();
                }
            }
        }
        let truncation = if parts > 8 || entries.len() > 8 {
            Truncation::Entries
        } else if is_cut {
            Truncation::Values
        } else {
            Truncation::None
        };
        prop_assert_eq!((read.truncation, read.is_hashed), (truncation, is_hashed));
        prop_assert_eq!((read.is_denied, read.frontend), (true, Frontend::Json));
    }

    // Fails when a text is split off without a check of the rest.
    #[test]
    fn decoding_never_reads_past_end(bytes in vec(any::<u8>(), 0..200)) {
        let _ = record::begin(&bytes);
        let _ = record::read(&bytes);
    }
}

// Fails when shards are listed one after the other and not by time, or when two decisions share a number.
#[test]
fn decisions_of_several_threads_are_listed_newest_first() {
    let ring = DecisionRing::with_shards(100, 3);
    for (thread_number, millis) in [(0, 10), (1, 20), (0, 30), (2, 25), (1, 40)] {
        record_in(&ring, thread_number, &millis.to_string(), millis);
    }
    assert_eq!(values(&ring), ["40", "30", "25", "20", "10"]);
    let snapshot = ring.snapshot();
    let mut ids: Vec<u64> = snapshot.newest_first().iter().map(|record| record.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 5);
    assert_eq!(snapshot.whole_since(), Timestamp::default());
}

// Fails when the oldest time of all shards is returned, not the latest of their oldest times.
#[test]
fn complete_since_is_latest_of_oldest_times() {
    let ring = DecisionRing::with_shards(4, 2);
    for (thread_number, millis) in [(0, 1), (0, 2), (0, 10), (1, 11), (1, 20), (1, 30), (1, 40)] {
        record_in(&ring, thread_number, "v", millis);
    }
    assert_eq!(ring.snapshot().newest_first().len(), 4);
    assert_eq!(ring.snapshot().whole_since(), Timestamp::from_millis(30));
}

// Fails when a writer waits for the reader.
#[test]
fn decision_on_locked_shard_is_omitted_and_counted() {
    let ring = DecisionRing::with_shards(10, 1);
    let taken = ring.shards[0].records.lock().unwrap();
    record_in(&ring, 0, "missed", 1);
    drop(taken);
    record_in(&ring, 0, "kept", 2);
    assert_eq!(values(&ring), ["kept"]);
    assert_eq!(ring.snapshot().missed, 1);
}

#[test]
fn one_that_is_off_keeps_nothing() {
    let ring = DecisionRing::new(0);
    ring.record(&HEAD, [part(&[("k", "v")])].into_iter());
    assert!(!ring.is_on() && ring.snapshot().newest_first().is_empty());
}

// Fails when omitted decisions are not counted, or when an adjacent record counts as overlapping.
#[test]
fn concurrent_writers_and_readers_lose_only_counted_decisions() {
    const EACH: u64 = 5_000;
    let ring = DecisionRing::with_shards(100_000, 2);
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let ring = &ring;
            scope.spawn(move || {
                for number in 0..EACH {
                    let value = format!("{thread}-{number}");
                    ring.record(
                        &DecisionHead { at: Timestamp::from_nanos(number), ..HEAD },
                        [part(&[("k", &value)])].into_iter(),
                    );
                }
            });
        }
        scope.spawn(|| {
            for _ in 0..20 {
                let snapshot = ring.snapshot();
                assert!(snapshot.newest_first().iter().all(|record| record.read().is_some()));
            }
        });
    });
    let snapshot = ring.snapshot();
    let mut all = values(&ring);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len() as u64 + snapshot.missed, 4 * EACH);
}

// Fails when each decision allocates a new buffer.
#[test]
fn recording_a_decision_allocates_nothing() {
    let ring = DecisionRing::with_shards(50, 1);
    let entries = [("remote_address", "203.0.113.9"), ("path", "/api/v1/orders")];
    let record = |number| {
        let head = DecisionHead { at: Timestamp::from_nanos(number), ..HEAD };
        ring.write(0, &head, [part(&entries)].into_iter());
    };
    (0..100).for_each(record);
    let allocations = allocation_counter::measure(|| (100..1_000).for_each(record));
    assert_eq!(allocations.count_total, 0);
}
