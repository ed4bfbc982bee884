//! Merge order, and messages from faulty peers.

mod hostile;
mod retention;

use super::message::MapMessage;
use super::*;
use proptest::prelude::*;
use std::time::Duration;

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn later(seconds: u64) -> Timestamp {
    NOW.saturating_add(Duration::from_secs(seconds))
}

fn id(name: &str) -> NodeId {
    NodeId::new(name)
}

/// Few texts, times and nodes, so that writes of one text collide, tie, and are too many.
fn text_and_entry() -> impl Strategy<Value = (Box<[u8]>, MapEntry)> {
    let by = prop::sample::select(vec!["a", "b", "c"]);
    (0_u8..8, 0_u64..6, by, any::<bool>(), 1_u64..4).prop_map(|(text, written_ms, by, is_removed, until)| {
        let until = later(until);
        (vec![text].into(), MapEntry { written_ms, by: Some(id(by)), is_removed, until, kept_until: until })
    })
}

fn map() -> impl Strategy<Value = ReplicatedMap> {
    prop::collection::vec(text_and_entry(), 0..12).prop_map(|messages| {
        let mut made = ReplicatedMap::new(4, 2);
        made.merge(messages, is_even, NOW);
        made
    })
}

/// The group that is known in these tests.
fn is_even(text: &[u8]) -> bool {
    text.first().is_none_or(|first| first.is_multiple_of(2))
}

fn all_of(map: &ReplicatedMap) -> Vec<(Box<[u8]>, MapEntry)> {
    map.all().map(|(text, entry)| (Box::from(text), entry.clone())).collect()
}

fn merged(one: &ReplicatedMap, other: &ReplicatedMap) -> ReplicatedMap {
    let mut both = one.clone();
    both.merge(all_of(other), is_even, NOW);
    both
}

proptest! {
    // Fails when a full map keeps the longest entries, or equal times are decided by arrival.
    #[test]
    fn maps_merge_in_any_order_and_any_number_of_times(
        a in map(), b in map(), c in map()
    ) {
        prop_assert_eq!(merged(&a, &b), merged(&b, &a));
        prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
        prop_assert_eq!(merged(&a, &a), a.clone());
        prop_assert_eq!(merged(&merged(&a, &b), &b), merged(&a, &b));
        let all = merged(&merged(&a, &b), &c);
        prop_assert!(all.read.entries.len() <= 4 && all.others.entries.len() <= 2);
        let is_same = merged(&a, &b) == a;
        prop_assert_eq!(merged(&a, &b).digest() == a.digest(), is_same);
        // The digest is updated with every change and always matches the entries.
        let mut swept = all.clone();
        swept.sweep(later(2));
        for kept in [&all, &swept] {
            prop_assert_eq!(kept.digest(), kept.recomputed_digest());
        }
    }

    // Fails when missing entries are sent without tombstones.
    #[test]
    fn missing_entries_complete_the_map(a in map(), b in map()) {
        let lacking = a.lacking(b.summary());
        let lacking = lacking.into_iter().map(|(text, entry)| (Box::from(text), entry.clone()));
        let mut whole = b.clone();
        whole.merge(lacking.collect::<Vec<_>>(), is_even, NOW);
        prop_assert_eq!(whole, merged(&a, &b));
    }

    #[test]
    fn messages_are_decoded_as_encoded(
        entries in prop::collection::vec(text_and_entry(), 1..40), known in prop::collection::vec(any::<(u64, u64)>(), 0..40),
        digest in any::<u64>()
    ) {
        for text_and_entry in [MapMessage::Entries(entries), MapMessage::Summary(known), MapMessage::Digest(digest)] {
            prop_assert_eq!(MapMessage::read(&text_and_entry.encode()), Ok(Some(text_and_entry)));
        }
    }

    #[test]
    fn arbitrary_bytes_cause_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..600), kind in 0_u8..5) {
        let handle = MapHandle::new(Some(id("a")));
        let bytes = [&[kind][..], &bytes].concat();
        let _ = handle.receive(&id("b"), &bytes, NOW);
    }
}

/// Delivers messages between two maps until neither has more to send.
fn converse(one: (&str, &MapHandle), other: (&str, &MapHandle), now: Timestamp) {
    let mut in_transit: Vec<(bool, Vec<u8>)> = Vec::new();
    in_transit.extend(one.1.digest(now).map(|message| (true, message)));
    in_transit.extend(other.1.digest(now).map(|message| (false, message)));
    while let Some((by_one, message)) = in_transit.pop() {
        let (speaker, listener) = if by_one { (one, other) } else { (other, one) };
        let answers = listener.1.receive(&id(speaker.0), &message, now).unwrap();
        in_transit.extend(answers.into_iter().map(|answer| (!by_one, answer)));
    }
}

/// A write of `b`.
fn entry(written_ms: u64, until: Timestamp) -> MapEntry {
    MapEntry { written_ms, by: Some(id("b")), is_removed: false, until, kept_until: until }
}

fn texts(handle: &MapHandle, now: Timestamp) -> Vec<String> {
    handle.read(|map| map.active(now).map(|(text, _)| String::from_utf8_lossy(text).into_owned()).collect())
}

// Fails when an entry is forgotten at removal and comes back from a node that missed it.
#[test]
fn removal_survives_a_node_that_was_away() {
    let (a, b) = (MapHandle::new(Some(id("a"))), MapHandle::new(Some(id("b"))));
    a.insert(b"x", later(100), NOW).unwrap();
    a.insert(b"y", later(100), NOW).unwrap();
    converse(("a", &a), ("b", &b), NOW);
    assert_eq!(texts(&b, NOW), ["x", "y"]);
    assert!(a.remove(b"x", later(1)));
    b.insert(b"z", later(50), later(1)).unwrap();
    converse(("a", &a), ("b", &b), later(2));
    for handle in [&a, &b] {
        assert_eq!(texts(handle, later(2)), ["y", "z"]);
        assert!(!handle.remove(b"x", later(2)));
        assert_eq!(texts(handle, later(50)), ["y"], "each ends by itself");
        handle.digest(later(100));
        handle.read(|map| assert_eq!(map.all().count(), 0, "nothing is kept for longer"));
    }
}

// Fails when writes are dated by the clock alone.
#[test]
fn last_write_wins_despite_a_slow_clock() {
    let (fast, slow) = (MapHandle::new(Some(id("a"))), MapHandle::new(Some(id("b"))));
    fast.insert(b"x", later(9_000), later(50)).unwrap();
    converse(("a", &fast), ("b", &slow), later(50));
    assert!(slow.remove(b"x", NOW));
    converse(("a", &fast), ("b", &slow), later(51));
    assert!(texts(&fast, later(51)).is_empty());
}

// Fails when any time, or any end, is accepted.
#[test]
fn impossible_entries_are_rejected() {
    let handle = MapHandle::new(Some(id("a")));
    let year = 366 * 86_400;
    let is_accepted = |written_ms, by: Option<&str>, until| {
        let entry = MapEntry { written_ms, by: by.map(id), is_removed: false, until, kept_until: until };
        let messages = MapMessage::Entries(vec![(Box::from(*b"x"), entry)]).encode();
        handle.receive(&id("b"), &messages, NOW).unwrap();
        !texts(&handle, NOW).is_empty()
    };
    let now_ms = NOW.as_nanos() / 1_000_000;
    assert!(!is_accepted(u64::MAX, Some("b"), later(9)), "from the end of time");
    assert!(!is_accepted(now_ms, Some("b"), Timestamp::MAX), "for ever");
    assert!(!is_accepted(now_ms, Some("b"), later(year + 86_401)), "for more than a year");
    assert!(!is_accepted(now_ms, Some("b"), NOW), "over");
    assert!(!is_accepted(now_ms, None, later(9)), "no origin");
    assert!(!is_accepted(now_ms + 60_001, Some("b"), later(9)), "from the day after");
    assert_eq!(handle.lost().rejected, 5, "expired in transit is not an error");
    assert!(is_accepted(now_ms + 60_000, Some("b"), later(9)), "clocks differ");
    let too_long = MapMessage::Entries(vec![(vec![0; LONGEST_TEXT + 1].into(), entry(now_ms, later(9)))]);
    assert!(handle.receive(&id("b"), &too_long.encode(), NOW).is_err());
    let too_many = MapMessage::Summary(vec![(1, 1); MOST_ENTRIES + MOST_OTHERS + 1]);
    assert!(handle.receive(&id("b"), &too_many.encode(), NOW).is_err());
}

// Fails when a map has room for everything.
#[test]
fn full_map_rejects_entries_with_an_error() {
    let handle = MapHandle::new(Some(id("a")));
    for number in 0..MOST_ACTIVE {
        handle.insert(number.to_string().as_bytes(), later(100), NOW).unwrap();
    }
    assert_eq!(handle.insert(b"x", later(9), NOW), Err(EntryError::Full { most: MOST_ACTIVE }));
    assert_eq!(handle.insert(b"7", later(9), NOW), Ok(()), "one that is there may change");
    assert!(handle.remove(b"8", NOW));
    assert_eq!(handle.insert(b"x", later(9), NOW), Ok(()));
    assert_eq!(
        handle.insert(&[0; LONGEST_TEXT + 1], later(9), NOW),
        Err(EntryError::TooLong { most: LONGEST_TEXT })
    );
    assert_eq!(handle.insert(b"y", NOW, NOW), Err(EntryError::Over));
    assert_eq!(handle.insert(b"y", later(367 * 86_400), NOW), Err(EntryError::TooLate));
}

// Fails when every request is answered.
#[test]
fn endless_requests_are_answered_at_intervals() {
    let handle = MapHandle::new(Some(id("a")));
    handle.insert(b"x", later(100), NOW).unwrap();
    let ask = MapMessage::Summary(Vec::new()).encode();
    let answers = |now| handle.receive(&id("b"), &ask, now).unwrap().len();
    assert_eq!((answers(NOW), answers(NOW), answers(later(1))), (1, 0, 1));
    assert_eq!(answers(NOW), 1, "a clock that was set back");
}

// Fails when the watcher is not called for writes of peers.
#[test]
fn watcher_is_called_for_every_change() {
    use std::sync::{Arc, Mutex};
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (a, b) = (MapHandle::new(Some(id("a"))), MapHandle::new(Some(id("b"))));
    let seen_by_watcher = Arc::clone(&seen);
    a.insert(b"w", later(10), NOW).unwrap();
    a.watch(|_| true, move |map| seen_by_watcher.lock().unwrap().push(map.active(NOW).count()));
    b.insert(b"x", later(10), NOW).unwrap();
    b.insert(b"y", later(10), NOW).unwrap();
    converse(("a", &a), ("b", &b), NOW);
    a.take_updates();
    a.take_updates();
    assert!(a.remove(b"x", NOW));
    a.digest(later(10));
    assert_eq!(*seen.lock().unwrap(), [1, 3, 2, 0], "once for all that a peer brings");
    let alone = MapHandle::new(None);
    alone.insert(b"x", later(10), NOW).unwrap();
    assert!(alone.remove(b"x", NOW) && !alone.remove(b"x", NOW));
    alone.read(|map| assert_eq!(map.all().count(), 0, "without peers no tombstone is needed"));
    assert!(alone.take_updates().is_empty());
}
