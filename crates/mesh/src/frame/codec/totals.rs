//! Member and owner updates as bytes, in totals.

use crate::frame::wire::{Unreadable, WireReader, WireWriter};
use crate::frame::{MemberReport, OwnerUpdate, WindowRef};
use hivemind_core::Limit;

/// Only buckets have accounts that end before their window does.
pub(super) fn has_serial(window_ref: &WindowRef) -> bool {
    matches!(window_ref.counter.limit, Limit::TokenBucket(_))
}

pub(super) fn write_report(writer: &mut WireWriter, window_ref: &WindowRef, report: &MemberReport) {
    if has_serial(window_ref) {
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

pub(super) fn read_report(
    reader: &mut WireReader<'_>,
    window_ref: &WindowRef,
) -> Result<MemberReport, Unreadable> {
    let serial = if has_serial(window_ref) { reader.number()? } else { 0 };
    let (spent, returned, seen) = (reader.number()?, reader.number()?, reader.number()?);
    let bits = if seen & 1 == 1 { reader.number()? } else { 0 };
    let mut rare = |bit: u64| if bits & bit == bit { reader.number() } else { Ok(0) };
    let (refused, refunded, given, owed) = (rare(2)?, rare(4)?, rare(8)?, rare(16)?);
    let birth = rare(32)?;
    let (granted_seen, eventual) = (seen >> 1, bits & 1 == 1);
    Ok(MemberReport {
        serial,
        birth,
        spent,
        returned,
        granted_seen,
        refused,
        refunded,
        given,
        owed,
        eventual,
    })
}

pub(super) fn write_update(writer: &mut WireWriter, window_ref: &WindowRef, update: &OwnerUpdate) {
    if has_serial(window_ref) {
        writer.number(update.serial);
    }
    writer.number(update.granted << 2 | u64::from(update.resets > 0) << 1 | u64::from(update.recall));
    writer.number(update.settled_seen);
    writer.signed(update.left);
    writer.number(update.others);
    if update.resets > 0 {
        writer.number(update.resets);
    }
}

pub(super) fn read_update(
    reader: &mut WireReader<'_>,
    window_ref: &WindowRef,
) -> Result<OwnerUpdate, Unreadable> {
    let serial = if has_serial(window_ref) { reader.number()? } else { 0 };
    let granted = reader.number()?;
    let (settled_seen, left, others) = (reader.number()?, reader.signed()?, reader.number()?);
    let resets = if granted & 2 == 2 { reader.number()? } else { 0 };
    let (granted, recall) = (granted >> 2, granted & 1 == 1);
    Ok(OwnerUpdate { serial, granted, settled_seen, left, others, recall, resets })
}
