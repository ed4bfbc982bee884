//! The cost of an inspection on the wire, and hostile replies to it.

use super::*;
use crate::frame::FRAME_BUDGET;
use crate::frame::holdings::MOST_SHARES;

/// A version before inspections reads one as an outcome request, and changes nothing for it.
///
/// Fails when inspections have their own kind, which such a version rejects with the rest of the frame.
#[test]
fn inspection_is_readable_by_earlier_versions() {
    let mut writer = WireWriter::default();
    write_want(&mut writer, &Want::Inspect);
    assert_eq!(writer.0, [4, 2, 0], "outcome, peek, nothing");
    assert_eq!(read_want(&mut WireReader(&[4, 2, 7])), Ok(Want::Inspect), "whatever its cost");
}

/// Fails when lists are as long as they claim, or names are empty, too long or duplicate.
#[test]
fn holdings_are_decoded_within_bounds_or_rejected() {
    let held = |names: &[String]| {
        let mut writer = WireWriter::default();
        for number in [8, 5, 1, 1, 1, 1, 0, 0] {
            writer.number(number);
        }
        writer.number(names.len() as u64);
        for name in names {
            writer.text(name);
            writer.number(u64::MAX);
        }
        read_reply(&mut WireReader(&writer.0))
    };
    let names = |count: usize| (0..count).map(|n| format!("{n:0128}")).collect::<Vec<_>>();
    let Ok(OwnerReply::Inspected(_, shares)) = held(&names(MOST_SHARES)) else {
        panic!("as many as there may be")
    };
    assert_eq!((shares.each.len(), shares.sum()), (MOST_SHARES, u64::MAX));
    assert_eq!(held(&names(MOST_SHARES + 1)), Err(Unreadable));
    for wrong in [vec![String::new()], vec!["x".repeat(129)], vec!["a".to_owned(), "a".to_owned()]] {
        assert_eq!(held(&wrong), Err(Unreadable), "{wrong:?}");
    }
    assert_eq!(
        read_reply(&mut WireReader(&[8, 5, 1, 1, 1, 1, 0, 0, 127])),
        Err(Unreadable),
        "and then nothing"
    );
    assert_eq!(read_reply(&mut WireReader(&[8, 0])), Err(Unreadable), "no verdict");
    // The longest list fits into a frame together with the messages before it.
    let mut writer = WireWriter::default();
    let each = names(MOST_SHARES).into_iter().map(|name| (NodeId::new(name), u64::MAX)).collect();
    let verdict =
        Verdict { outcome: Outcome::Admitted, available: 0, remaining: 0, reset_after: Duration::ZERO };
    write_reply(&mut writer, &OwnerReply::Inspected(verdict, Shares { each, ..Shares::default() }));
    assert!(writer.0.len() + FRAME_BUDGET < LONGEST_FRAME, "{} bytes", writer.0.len());
}
