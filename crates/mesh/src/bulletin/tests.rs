//! Merge order, and messages from faulty peers.

mod hostile;
mod lasting;

use super::words::Word;
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
fn word() -> impl Strategy<Value = (Box<[u8]>, Note)> {
    let by = prop::sample::select(vec!["a", "b", "c"]);
    (0_u8..8, 0_u64..6, by, any::<bool>(), 1_u64..4).prop_map(|(text, written_ms, by, is_down, until)| {
        let until = later(until);
        (vec![text].into(), Note { written_ms, by: Some(id(by)), is_down, until, kept_until: until })
    })
}

fn bulletin() -> impl Strategy<Value = Bulletin> {
    prop::collection::vec(word(), 0..12).prop_map(|words| {
        let mut made = Bulletin::new(4, 2);
        made.merge(words, is_even, NOW);
        made
    })
}

/// The group that is known in these tests.
fn is_even(text: &[u8]) -> bool {
    text.first().is_none_or(|first| first.is_multiple_of(2))
}

fn all_of(bulletin: &Bulletin) -> Vec<(Box<[u8]>, Note)> {
    bulletin.all().map(|(text, note)| (Box::from(text), note.clone())).collect()
}

fn merged(one: &Bulletin, other: &Bulletin) -> Bulletin {
    let mut both = one.clone();
    both.merge(all_of(other), is_even, NOW);
    both
}

proptest! {
    // Fails when a full map keeps the longest entries, or equal times are decided by arrival.
    #[test]
    fn bulletins_merge_in_any_order_and_any_number_of_times(
        a in bulletin(), b in bulletin(), c in bulletin()
    ) {
        prop_assert_eq!(merged(&a, &b), merged(&b, &a));
        prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
        prop_assert_eq!(merged(&a, &a), a.clone());
        prop_assert_eq!(merged(&merged(&a, &b), &b), merged(&a, &b));
        let all = merged(&merged(&a, &b), &c);
        prop_assert!(all.read.notes.len() <= 4 && all.others.notes.len() <= 2);
        let is_same = merged(&a, &b) == a;
        prop_assert_eq!(merged(&a, &b).digest() == a.digest(), is_same);
        // The digest is kept with every change, and is that of what is there.
        let mut swept = all.clone();
        swept.sweep(later(2));
        for kept in [&all, &swept] {
            prop_assert_eq!(kept.digest(), kept.digest_anew());
        }
    }

    // Fails when missing entries are sent without tombstones.
    #[test]
    fn what_somebody_lacks_makes_it_whole(a in bulletin(), b in bulletin()) {
        let lacking = a.lacking(b.summary());
        let lacking = lacking.into_iter().map(|(text, note)| (Box::from(text), note.clone()));
        let mut whole = b.clone();
        whole.merge(lacking.collect::<Vec<_>>(), is_even, NOW);
        prop_assert_eq!(whole, merged(&a, &b));
    }

    #[test]
    fn words_are_read_as_they_were_written(
        notes in prop::collection::vec(word(), 1..40), known in prop::collection::vec(any::<(u64, u64)>(), 0..40),
        digest in any::<u64>()
    ) {
        for word in [Word::Notes(notes), Word::Summary(known), Word::Digest(digest)] {
            prop_assert_eq!(Word::read(&word.written()), Ok(Some(word)));
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..600), kind in 0_u8..5) {
        let board = Board::new(Some(id("a")));
        let bytes = [&[kind][..], &bytes].concat();
        let _ = board.hear(&id("b"), &bytes, NOW);
    }
}

/// Delivers messages between two maps until neither has more to send.
fn converse(one: (&str, &Board), other: (&str, &Board), now: Timestamp) {
    let mut said: Vec<(bool, Vec<u8>)> = Vec::new();
    said.extend(one.1.digest(now).map(|words| (true, words)));
    said.extend(other.1.digest(now).map(|words| (false, words)));
    while let Some((by_one, words)) = said.pop() {
        let (speaker, listener) = if by_one { (one, other) } else { (other, one) };
        let answers = listener.1.hear(&id(speaker.0), &words, now).unwrap();
        said.extend(answers.into_iter().map(|answer| (!by_one, answer)));
    }
}

/// A write of `b`.
fn note(written_ms: u64, until: Timestamp) -> Note {
    Note { written_ms, by: Some(id("b")), is_down: false, until, kept_until: until }
}

fn texts(board: &Board, now: Timestamp) -> Vec<String> {
    board.show(|bulletin| {
        bulletin.holding(now).map(|(text, _)| String::from_utf8_lossy(text).into_owned()).collect()
    })
}

// Fails when an entry is forgotten at removal and comes back from a node that missed it.
#[test]
fn what_was_taken_down_while_a_node_was_away_stays_down() {
    let (a, b) = (Board::new(Some(id("a"))), Board::new(Some(id("b"))));
    a.post(b"x", later(100), NOW).unwrap();
    a.post(b"y", later(100), NOW).unwrap();
    converse(("a", &a), ("b", &b), NOW);
    assert_eq!(texts(&b, NOW), ["x", "y"]);
    assert!(a.take_down(b"x", later(1)));
    b.post(b"z", later(50), later(1)).unwrap();
    converse(("a", &a), ("b", &b), later(2));
    for board in [&a, &b] {
        assert_eq!(texts(board, later(2)), ["y", "z"]);
        assert!(!board.take_down(b"x", later(2)));
        assert_eq!(texts(board, later(50)), ["y"], "each ends by itself");
        board.digest(later(100));
        board.show(|bulletin| assert_eq!(bulletin.all().count(), 0, "nothing is kept for longer"));
    }
}

// Fails when writes are dated by the clock alone.
#[test]
fn the_last_word_counts_however_slow_the_clock_is_that_it_was_said_by() {
    let (fast, slow) = (Board::new(Some(id("a"))), Board::new(Some(id("b"))));
    fast.post(b"x", later(9_000), later(50)).unwrap();
    converse(("a", &fast), ("b", &slow), later(50));
    assert!(slow.take_down(b"x", NOW));
    converse(("a", &fast), ("b", &slow), later(51));
    assert!(texts(&fast, later(51)).is_empty());
}

// Fails when any time, or any end, is accepted.
#[test]
fn what_nobody_can_have_said_is_not_believed() {
    let board = Board::new(Some(id("a")));
    let year = 366 * 86_400;
    let said = |written_ms, by: Option<&str>, until| {
        let note = Note { written_ms, by: by.map(id), is_down: false, until, kept_until: until };
        let words = Word::Notes(vec![(Box::from(*b"x"), note)]).written();
        board.hear(&id("b"), &words, NOW).unwrap();
        !texts(&board, NOW).is_empty()
    };
    let now_ms = NOW.as_nanos() / 1_000_000;
    assert!(!said(u64::MAX, Some("b"), later(9)), "from the end of time");
    assert!(!said(now_ms, Some("b"), Timestamp::MAX), "for ever");
    assert!(!said(now_ms, Some("b"), later(year + 86_401)), "for more than a year");
    assert!(!said(now_ms, Some("b"), NOW), "over");
    assert!(!said(now_ms, None, later(9)), "no origin");
    assert!(!said(now_ms + 60_001, Some("b"), later(9)), "from the day after");
    assert_eq!(board.lost().unbelieved, 5, "expired in transit is not an error");
    assert!(said(now_ms + 60_000, Some("b"), later(9)), "clocks differ");
    let too_long = Word::Notes(vec![(vec![0; LONGEST_TEXT + 1].into(), note(now_ms, later(9)))]);
    assert!(board.hear(&id("b"), &too_long.written(), NOW).is_err());
    let too_many = Word::Summary(vec![(1, 1); MOST_NOTES + MOST_OTHERS + 1]);
    assert!(board.hear(&id("b"), &too_many.written(), NOW).is_err());
}

// Fails when a map has room for everything.
#[test]
fn a_board_is_bounded_and_says_so() {
    let board = Board::new(Some(id("a")));
    for number in 0..MOST_HOLDING {
        board.post(number.to_string().as_bytes(), later(100), NOW).unwrap();
    }
    assert_eq!(board.post(b"x", later(9), NOW), Err(NotPosted::Full { most: MOST_HOLDING }));
    assert_eq!(board.post(b"7", later(9), NOW), Ok(()), "one that is there may change");
    assert!(board.take_down(b"8", NOW));
    assert_eq!(board.post(b"x", later(9), NOW), Ok(()));
    assert_eq!(
        board.post(&[0; LONGEST_TEXT + 1], later(9), NOW),
        Err(NotPosted::TooLong { most: LONGEST_TEXT })
    );
    assert_eq!(board.post(b"y", NOW, NOW), Err(NotPosted::Over));
    assert_eq!(board.post(b"y", later(367 * 86_400), NOW), Err(NotPosted::TooLate));
}

// Fails when every request is answered.
#[test]
fn whoever_asks_without_end_is_answered_now_and_then() {
    let board = Board::new(Some(id("a")));
    board.post(b"x", later(100), NOW).unwrap();
    let ask = Word::Summary(Vec::new()).written();
    let answers = |now| board.hear(&id("b"), &ask, now).unwrap().len();
    assert_eq!((answers(NOW), answers(NOW), answers(later(1))), (1, 0, 1));
    assert_eq!(answers(NOW), 1, "a clock that was set back");
}

// Fails when the watcher is not called for writes of peers.
#[test]
fn whoever_watches_is_told_of_every_change() {
    use std::sync::{Arc, Mutex};
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (a, b) = (Board::new(Some(id("a"))), Board::new(Some(id("b"))));
    let told = Arc::clone(&seen);
    a.post(b"w", later(10), NOW).unwrap();
    a.watch(|_| true, move |bulletin| told.lock().unwrap().push(bulletin.holding(NOW).count()));
    b.post(b"x", later(10), NOW).unwrap();
    b.post(b"y", later(10), NOW).unwrap();
    converse(("a", &a), ("b", &b), NOW);
    a.take_news();
    a.take_news();
    assert!(a.take_down(b"x", NOW));
    a.digest(later(10));
    assert_eq!(*seen.lock().unwrap(), [1, 3, 2, 0], "once for all that a peer brings");
    let alone = Board::new(None);
    alone.post(b"x", later(10), NOW).unwrap();
    assert!(alone.take_down(b"x", NOW) && !alone.take_down(b"x", NOW));
    alone.show(|bulletin| assert_eq!(bulletin.all().count(), 0, "without peers no tombstone is needed"));
    assert!(alone.take_news().is_empty());
}
