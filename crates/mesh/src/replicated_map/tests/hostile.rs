//! A faulty or malicious peer.

use super::*;

const YEAR: u64 = 366 * 86_400;

fn deliver(handle: &MapHandle, entries: impl IntoIterator<Item = (Box<[u8]>, MapEntry)>, now: Timestamp) {
    let entries: Vec<_> = entries.into_iter().collect();
    for messages in MapMessage::entries(entries.iter().map(|(text, entry)| (&**text, entry))) {
        handle.receive(&id("b"), &messages, now).unwrap();
    }
    handle.take_updates();
}

fn now_ms() -> u64 {
    NOW.as_nanos() / 1_000_000
}

// Fails when a write dated a day ahead is accepted, or texts of any group displace blocks.
#[test]
fn unknown_texts_displace_no_known_entries() {
    let handle = MapHandle::new(Some(id("a")));
    handle.watch(|text| text.starts_with(b"block"), |_| {});
    handle.insert(b"block ada", later(100), NOW).unwrap();
    let made_up = |number: usize| (number.to_string().into_bytes().into(), entry(now_ms() + 1, later(YEAR)));
    deliver(&handle, (0..2 * MOST_ENTRIES - 1).map(made_up), NOW);
    handle.read(|map| assert_eq!(map.all().count(), 1 + MOST_OTHERS));
    assert_eq!(texts(&handle, NOW).first().map(String::as_str), Some("block ada"));
    assert_eq!(handle.insert(b"block bob", later(100), NOW), Ok(()));
}

// Fails when texts received before the watcher was set stay among the known ones.
#[test]
fn early_texts_are_grouped_when_the_watcher_is_set() {
    let handle = MapHandle::new(Some(id("a")));
    let heard = |number: usize| (number.to_string().into_bytes().into(), entry(now_ms(), later(9)));
    deliver(&handle, (0..MOST_OTHERS + 50).map(heard), NOW);
    deliver(&handle, [(Box::from(*b"block ada"), entry(now_ms(), later(9)))], NOW);
    handle.watch(|text| text.starts_with(b"block"), |_| {});
    handle.read(|map| {
        assert_eq!((map.read.entries.len(), map.others.entries.len()), (1, MOST_OTHERS));
        assert_eq!(map.digest(), map.recomputed_digest());
    });
}

// Fails when blocks are dropped silently, or writes dated a day ahead, which cannot be outranked, are accepted.
#[test]
fn filled_map_counts_drops_and_accepts_later_writes() {
    let handle = MapHandle::new(Some(id("a")));
    for number in 0..10 {
        handle.insert(format!("own {number}").as_bytes(), later(100), NOW).unwrap();
    }
    let made_up =
        |number: usize| (number.to_string().into_bytes().into(), entry(now_ms() + 50_000, later(YEAR)));
    deliver(&handle, (0..MOST_ENTRIES).map(made_up), NOW);
    assert_eq!(handle.lost().dropped, 10);
    // The operator removes the invented entries, and blocks again; all of that is later.
    assert_eq!(handle.insert(b"own", later(200), later(70)), Err(EntryError::Full { most: MOST_ACTIVE }));
    for text in texts(&handle, later(70)) {
        assert!(handle.remove(text.as_bytes(), later(70)));
    }
    assert_eq!(handle.insert(b"own", later(200), later(70)), Ok(()));
    assert_eq!(texts(&handle, later(71)), ["own"]);
}

// Fails when any number of entries is accepted.
#[test]
fn entries_over_the_rate_limit_are_dropped() {
    let handle = MapHandle::new(Some(id("a")));
    let most = super::super::message_limits::MOST_ACCEPTED as u64;
    for number in 0..most + 10 {
        deliver(&handle, [(Box::from(*b"x"), entry(now_ms() - most + number, later(9)))], NOW);
    }
    let written = |handle: &MapHandle| handle.read(|map| map.get(b"x").map(|entry| entry.written_ms));
    assert_eq!(written(&handle), Some(now_ms() - 1));
    assert_eq!(handle.lost().rate_limited, 10);
    deliver(&handle, [(Box::from(*b"x"), entry(now_ms(), later(9)))], later(1));
    assert_eq!(written(&handle), Some(now_ms()));
}

// Fails when an entry that is forgotten before it ends is accepted.
#[test]
fn entry_that_outlives_its_retention_is_rejected() {
    let handle = MapHandle::new(Some(id("a")));
    let odd = MapEntry { kept_until: later(5), ..entry(now_ms(), later(9)) };
    deliver(&handle, [(Box::from(*b"x"), odd)], NOW);
    assert!(texts(&handle, NOW).is_empty());
    let far = MapEntry { kept_until: Timestamp::MAX, ..entry(now_ms(), later(9)) };
    deliver(&handle, [(Box::from(*b"x"), far)], NOW);
    assert!(texts(&handle, NOW).is_empty());
}
