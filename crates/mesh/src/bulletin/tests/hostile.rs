//! A faulty or malicious peer.

use super::*;

const YEAR: u64 = 366 * 86_400;

fn told(board: &Board, notes: impl IntoIterator<Item = (Box<[u8]>, Note)>, now: Timestamp) {
    let notes: Vec<_> = notes.into_iter().collect();
    for words in Word::notes(notes.iter().map(|(text, note)| (&**text, note))) {
        board.hear(&id("b"), &words, now).unwrap();
    }
    board.take_news();
}

fn now_ms() -> u64 {
    NOW.as_nanos() / 1_000_000
}

// Fails when a write dated a day ahead is accepted, or texts of any group displace blocks.
#[test]
fn texts_that_nobody_reads_take_no_place_from_those_that_are_read() {
    let board = Board::new(Some(id("a")));
    board.watch(|text| text.starts_with(b"block"), |_| {});
    board.post(b"block ada", later(100), NOW).unwrap();
    let made_up = |number: usize| (number.to_string().into_bytes().into(), note(now_ms() + 1, later(YEAR)));
    told(&board, (0..2 * MOST_NOTES - 1).map(made_up), NOW);
    board.show(|bulletin| assert_eq!(bulletin.all().count(), 1 + MOST_OTHERS));
    assert_eq!(texts(&board, NOW).first().map(String::as_str), Some("block ada"));
    assert_eq!(board.post(b"block bob", later(100), NOW), Ok(()));
}

// Fails when texts received before the watcher was set stay among the known ones.
#[test]
fn texts_that_came_before_anybody_could_say_whether_they_are_read_are_parted_then() {
    let board = Board::new(Some(id("a")));
    let heard = |number: usize| (number.to_string().into_bytes().into(), note(now_ms(), later(9)));
    told(&board, (0..MOST_OTHERS + 50).map(heard), NOW);
    told(&board, [(Box::from(*b"block ada"), note(now_ms(), later(9)))], NOW);
    board.watch(|text| text.starts_with(b"block"), |_| {});
    board.show(|bulletin| {
        assert_eq!((bulletin.read.notes.len(), bulletin.others.notes.len()), (1, MOST_OTHERS));
        assert_eq!(bulletin.digest(), bulletin.digest_anew());
    });
}

// Fails when blocks are dropped silently, or writes dated a day ahead, which cannot be outranked, are accepted.
#[test]
fn whoever_fills_the_board_is_counted_and_what_is_said_after_it_counts() {
    let board = Board::new(Some(id("a")));
    for number in 0..10 {
        board.post(format!("own {number}").as_bytes(), later(100), NOW).unwrap();
    }
    let made_up =
        |number: usize| (number.to_string().into_bytes().into(), note(now_ms() + 50_000, later(YEAR)));
    told(&board, (0..MOST_NOTES).map(made_up), NOW);
    assert_eq!(board.lost().dropped, 10);
    // The operator removes the invented entries, and blocks again; all of that is later.
    assert_eq!(board.post(b"own", later(200), later(70)), Err(NotPosted::Full { most: MOST_HOLDING }));
    for text in texts(&board, later(70)) {
        assert!(board.take_down(text.as_bytes(), later(70)));
    }
    assert_eq!(board.post(b"own", later(200), later(70)), Ok(()));
    assert_eq!(texts(&board, later(71)), ["own"]);
}

// Fails when any number of entries is accepted.
#[test]
fn whoever_tells_notes_without_end_is_not_heard_without_end() {
    let board = Board::new(Some(id("a")));
    let most = super::super::hearing::MOST_HEARD as u64;
    for number in 0..most + 10 {
        told(&board, [(Box::from(*b"x"), note(now_ms() - most + number, later(9)))], NOW);
    }
    let written = |board: &Board| board.show(|bulletin| bulletin.get(b"x").map(|note| note.written_ms));
    assert_eq!(written(&board), Some(now_ms() - 1));
    assert_eq!(board.lost().unheard, 10);
    told(&board, [(Box::from(*b"x"), note(now_ms(), later(9)))], later(1));
    assert_eq!(written(&board), Some(now_ms()));
}

// Fails when an entry that is forgotten before it ends is accepted.
#[test]
fn a_note_that_ends_after_it_is_forgotten_is_not_believed() {
    let board = Board::new(Some(id("a")));
    let odd = Note { kept_until: later(5), ..note(now_ms(), later(9)) };
    told(&board, [(Box::from(*b"x"), odd)], NOW);
    assert!(texts(&board, NOW).is_empty());
    let far = Note { kept_until: Timestamp::MAX, ..note(now_ms(), later(9)) };
    told(&board, [(Box::from(*b"x"), far)], NOW);
    assert!(texts(&board, NOW).is_empty());
}
