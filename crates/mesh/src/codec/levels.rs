//! Bucket levels of a handoff as bytes. Keys are written in full: mostly the two nodes do not refer to them
//! again.

use crate::dictionary::Subject;
use crate::frame::{Levels, MOST_LEVELS};
use crate::view::ViewId;
use crate::wire::{Reader, Unreadable, Writer};
use hivemind_core::Timestamp;

pub(super) fn write_levels(writer: &mut Writer, told: &Levels) {
    let Levels { view, since, count, first, each } = told;
    writer.fixed(view.0);
    writer.number(since.as_nanos());
    writer.number(u64::from(*count));
    writer.number(u64::from(*first));
    writer.number(each.len() as u64);
    for (subject, level) in each {
        subject.write(writer);
        writer.number(u64::from(*level));
    }
}

pub(super) fn read_levels(reader: &mut Reader<'_>) -> Result<Levels, Unreadable> {
    let view = ViewId(reader.fixed()?);
    let since = Timestamp::from_nanos(reader.number()?);
    let small = |number: u64| u32::try_from(number).map_err(|_| Unreadable);
    let (count, first) = (small(reader.number()?)?, small(reader.number()?)?);
    let told = reader.count(MOST_LEVELS)?;
    let mut each = Vec::new();
    for _ in 0..told {
        each.push((Subject::read(reader)?, small(reader.number()?)?));
    }
    Ok(Levels { view, since, count, first, each })
}
