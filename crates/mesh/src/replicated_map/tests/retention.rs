//! How long writes are remembered, and that they do not fill the map.

use super::*;

const DAY: u64 = 86_400;

// Fails when a write is forgotten at its own end, not at that of the longest entry it replaced.
#[test]
fn shortened_block_does_not_return_at_old_length() {
    for is_taken_down in [false, true] {
        let (a, b) = (MapHandle::new(Some(id("a"))), MapHandle::new(Some(id("b"))));
        a.insert(b"x", later(5 * DAY), NOW).unwrap();
        converse(("a", &a), ("b", &b), NOW);
        // While `b` is away it is set for a minute, or for an hour and then removed.
        if is_taken_down {
            a.insert(b"x", later(3_600), later(1)).unwrap();
            assert!(a.remove(b"x", later(2)));
        } else {
            a.insert(b"x", later(60), later(1)).unwrap();
        }
        a.digest(later(DAY));
        converse(("a", &a), ("b", &b), later(DAY));
        for handle in [&a, &b] {
            assert!(texts(handle, later(DAY)).is_empty(), "taken down: {is_taken_down}");
        }
        a.digest(later(5 * DAY));
        a.read(|map| assert_eq!(map.all().count(), 0, "it is not remembered for ever"));
    }
}

// Fails when tombstones are kept until the entry would have ended, and a full map takes nothing.
#[test]
fn removed_entries_do_not_fill_the_map() {
    let handle = MapHandle::new(Some(id("a")));
    for number in 0..3 * MOST_ENTRIES as u64 {
        let (text, now) = (number.to_string(), later(number * 60));
        handle.insert(text.as_bytes(), later(number * 60 + 30 * DAY), now).unwrap();
        assert!(handle.remove(text.as_bytes(), now));
    }
    let now = later(3 * MOST_ENTRIES as u64 * 60);
    assert_eq!(handle.insert(b"x", now.saturating_add(Duration::from_secs(60)), now), Ok(()));
    assert_eq!(texts(&handle, now), ["x"]);
    handle.read(|map| assert_eq!(map.all().count(), MOST_ENTRIES));
    let week_after = now.saturating_add(Duration::from_secs(7 * DAY));
    handle.digest(week_after);
    handle.read(|map| assert_eq!(map.all().count(), 0, "a week is enough"));
}

// Fails when the oldest write is dropped whatever it is, or an error mentions blocks where there are none.
#[test]
fn removals_of_others_do_not_end_a_block() {
    let handle = MapHandle::new(Some(id("a")));
    handle.insert(b"first", later(30 * DAY), NOW).unwrap();
    for number in 1..MOST_ENTRIES {
        let text = number.to_string();
        handle.insert(text.as_bytes(), later(DAY), later(1)).unwrap();
        assert!(handle.remove(text.as_bytes(), later(1)));
    }
    let crowded = handle.insert(b"x", later(60), later(2)).unwrap_err();
    assert_eq!(crowded, EntryError::Crowded { most: MOST_ENTRIES });
    assert!(crowded.to_string().contains("a week"), "{crowded}");
    assert_eq!(handle.insert(b"first", later(30 * DAY), later(2)), Ok(()), "written again, it is the latest");
    assert_eq!(handle.insert(b"x", later(60), later(2)), Ok(()));
    assert_eq!(texts(&handle, later(2)), ["first", "x"]);
}

// Fails when everything missing is sent at once.
#[test]
fn largest_map_is_sent_a_few_messages_at_a_time() {
    let (a, b) = (MapHandle::new(Some(id("a"))), MapHandle::new(Some(id("b"))));
    let long = |number: usize| format!("{number:0>LONGEST_TEXT$}");
    for half in 0..2 {
        for number in 0..MOST_ACTIVE {
            let text = long(half * MOST_ACTIVE + number);
            a.insert(text.as_bytes(), later(DAY), NOW).unwrap();
            if half == 0 {
                assert!(a.remove(text.as_bytes(), NOW));
            }
        }
    }
    let sent = a.take_updates();
    assert!(sent.iter().all(|messages| messages.len() < crate::frame::LONGEST_FRAME / 2));
    let question = MapMessage::Summary(Vec::new()).encode();
    let answers = a.receive(&id("c"), &question, NOW).unwrap();
    assert_eq!(answers.len(), super::super::message_limits::MOST_MESSAGES);
    for second in 1..12 {
        converse(("a", &a), ("b", &b), later(second));
    }
    assert_eq!(a.digest(later(12)), b.digest(later(12)));
    assert_eq!(texts(&b, NOW).len(), MOST_ACTIVE);
}

// Fails when every peer with other content is asked for all of it.
#[test]
fn empty_node_requests_from_one_peer_at_a_time() {
    let (joiner, other) = (MapHandle::new(Some(id("j"))), MapHandle::new(Some(id("a"))));
    other.insert(b"x", later(DAY), NOW).unwrap();
    let digest = other.digest(NOW).unwrap();
    let asked = |peer: &str, now| !joiner.receive(&id(peer), &digest, now).unwrap().is_empty();
    let asked_of_many = (0..29).filter(|number| asked(&format!("p{number}"), NOW)).count();
    assert_eq!(asked_of_many, 1);
    let half = NOW.saturating_add(Duration::from_millis(500));
    assert!(!asked("p0", half), "not the same one again while there are others");
    assert!(asked("p1", half));
    assert!(asked("p1", later(2)), "unless no other peer has content");
}
