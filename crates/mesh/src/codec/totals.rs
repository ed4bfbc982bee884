//! Member and owner updates as bytes, in totals.

use crate::frame::{Place, Report, Word};
use crate::wire::{Reader, Unreadable, Writer};
use hivemind_core::Limit;

/// Only buckets have accounts that end before their window does.
pub(super) fn has_serial(place: &Place) -> bool {
    matches!(place.subject.limit, Limit::TokenBucket(_))
}

pub(super) fn write_report(writer: &mut Writer, place: &Place, report: &Report) {
    if has_serial(place) {
        writer.number(report.serial);
    }
    writer.number(report.spent);
    writer.number(report.returned);
    // Most members refuse and refund nothing, so totals that are 0 are left out.
    let rare = [report.refused, report.refunded, report.given, report.owed, report.birth];
    let present = rare.iter().rev().fold(0, |bits, total| bits << 1 | u64::from(*total > 0));
    let bits = present << 1 | u64::from(report.eventual);
    writer.number(report.granted_seen << 1 | u64::from(bits != 0));
    if bits != 0 {
        writer.number(bits);
    }
    rare.iter().filter(|total| **total > 0).for_each(|total| writer.number(*total));
}

pub(super) fn read_report(reader: &mut Reader<'_>, place: &Place) -> Result<Report, Unreadable> {
    let serial = if has_serial(place) { reader.number()? } else { 0 };
    let (spent, returned, seen) = (reader.number()?, reader.number()?, reader.number()?);
    let bits = if seen & 1 == 1 { reader.number()? } else { 0 };
    let mut rare = |bit: u64| if bits & bit == bit { reader.number() } else { Ok(0) };
    let (refused, refunded, given, owed) = (rare(2)?, rare(4)?, rare(8)?, rare(16)?);
    let birth = rare(32)?;
    let (granted_seen, eventual) = (seen >> 1, bits & 1 == 1);
    Ok(Report { serial, birth, spent, returned, granted_seen, refused, refunded, given, owed, eventual })
}

pub(super) fn write_word(writer: &mut Writer, place: &Place, word: &Word) {
    if has_serial(place) {
        writer.number(word.serial);
    }
    writer.number(word.granted << 2 | u64::from(word.resets > 0) << 1 | u64::from(word.recall));
    writer.number(word.settled_seen);
    writer.signed(word.left);
    writer.number(word.others);
    if word.resets > 0 {
        writer.number(word.resets);
    }
}

pub(super) fn read_word(reader: &mut Reader<'_>, place: &Place) -> Result<Word, Unreadable> {
    let serial = if has_serial(place) { reader.number()? } else { 0 };
    let granted = reader.number()?;
    let (settled_seen, left, others) = (reader.number()?, reader.signed()?, reader.number()?);
    let resets = if granted & 2 == 2 { reader.number()? } else { 0 };
    let (granted, recall) = (granted >> 2, granted & 1 == 1);
    Ok(Word { serial, granted, settled_seen, left, others, recall, resets })
}
