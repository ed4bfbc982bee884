//! How long writes are remembered, and that they do not fill the map.

use super::*;

const DAY: u64 = 86_400;

// Fails when a write is forgotten at its own end, not at that of the longest entry it replaced.
#[test]
fn a_block_that_was_shortened_does_not_come_back_at_its_old_length() {
    for is_taken_down in [false, true] {
        let (a, b) = (Board::new(Some(id("a"))), Board::new(Some(id("b"))));
        a.post(b"x", later(5 * DAY), NOW).unwrap();
        converse(("a", &a), ("b", &b), NOW);
        // While `b` is away it is set for a minute, or for an hour and then removed.
        if is_taken_down {
            a.post(b"x", later(3_600), later(1)).unwrap();
            assert!(a.take_down(b"x", later(2)));
        } else {
            a.post(b"x", later(60), later(1)).unwrap();
        }
        a.digest(later(DAY));
        converse(("a", &a), ("b", &b), later(DAY));
        for board in [&a, &b] {
            assert!(texts(board, later(DAY)).is_empty(), "taken down: {is_taken_down}");
        }
        a.digest(later(5 * DAY));
        a.show(|bulletin| assert_eq!(bulletin.all().count(), 0, "it is not remembered for ever"));
    }
}

// Fails when tombstones are kept until the entry would have ended, and a full map takes nothing.
#[test]
fn what_was_taken_down_does_not_fill_the_board() {
    let board = Board::new(Some(id("a")));
    for number in 0..3 * MOST_NOTES as u64 {
        let (text, now) = (number.to_string(), later(number * 60));
        board.post(text.as_bytes(), later(number * 60 + 30 * DAY), now).unwrap();
        assert!(board.take_down(text.as_bytes(), now));
    }
    let now = later(3 * MOST_NOTES as u64 * 60);
    assert_eq!(board.post(b"x", now.saturating_add(Duration::from_secs(60)), now), Ok(()));
    assert_eq!(texts(&board, now), ["x"]);
    board.show(|bulletin| assert_eq!(bulletin.all().count(), MOST_NOTES));
    let week_after = now.saturating_add(Duration::from_secs(7 * DAY));
    board.digest(week_after);
    board.show(|bulletin| assert_eq!(bulletin.all().count(), 0, "a week is enough"));
}

// Fails when the oldest write is dropped whatever it is, or an error mentions blocks where there are none.
#[test]
fn a_block_does_not_end_for_words_that_take_others_down() {
    let board = Board::new(Some(id("a")));
    board.post(b"first", later(30 * DAY), NOW).unwrap();
    for number in 1..MOST_NOTES {
        let text = number.to_string();
        board.post(text.as_bytes(), later(DAY), later(1)).unwrap();
        assert!(board.take_down(text.as_bytes(), later(1)));
    }
    let crowded = board.post(b"x", later(60), later(2)).unwrap_err();
    assert_eq!(crowded, NotPosted::Crowded { most: MOST_NOTES });
    assert!(crowded.to_string().contains("a week"), "{crowded}");
    assert_eq!(board.post(b"first", later(30 * DAY), later(2)), Ok(()), "written again, it is the latest");
    assert_eq!(board.post(b"x", later(60), later(2)), Ok(()));
    assert_eq!(texts(&board, later(2)), ["first", "x"]);
}

// Fails when everything missing is sent at once.
#[test]
fn the_largest_board_there_can_be_goes_to_a_peer_some_messages_at_a_time() {
    let (a, b) = (Board::new(Some(id("a"))), Board::new(Some(id("b"))));
    let long = |number: usize| format!("{number:0>LONGEST_TEXT$}");
    for half in 0..2 {
        for number in 0..MOST_HOLDING {
            let text = long(half * MOST_HOLDING + number);
            a.post(text.as_bytes(), later(DAY), NOW).unwrap();
            if half == 0 {
                assert!(a.take_down(text.as_bytes(), NOW));
            }
        }
    }
    let told = a.take_news();
    assert!(told.iter().all(|words| words.len() < crate::frame::LONGEST_FRAME / 2));
    let question = Word::Summary(Vec::new()).written();
    let answers = a.hear(&id("c"), &question, NOW).unwrap();
    assert_eq!(answers.len(), super::super::hearing::MOST_MESSAGES);
    for second in 1..12 {
        converse(("a", &a), ("b", &b), later(second));
    }
    assert_eq!(a.digest(later(12)), b.digest(later(12)));
    assert_eq!(texts(&b, NOW).len(), MOST_HOLDING);
}

// Fails when every peer with other content is asked for all of it.
#[test]
fn who_knows_nothing_asks_one_peer_at_a_time() {
    let (joiner, other) = (Board::new(Some(id("j"))), Board::new(Some(id("a"))));
    other.post(b"x", later(DAY), NOW).unwrap();
    let digest = other.digest(NOW).unwrap();
    let asked = |peer: &str, now| !joiner.hear(&id(peer), &digest, now).unwrap().is_empty();
    let asked_of_many = (0..29).filter(|number| asked(&format!("p{number}"), NOW)).count();
    assert_eq!(asked_of_many, 1);
    let half = NOW.saturating_add(Duration::from_millis(500));
    assert!(!asked("p0", half), "not the same one again while there are others");
    assert!(asked("p1", half));
    assert!(asked("p1", later(2)), "unless no other peer has content");
}
