//! Bucket levels of a handoff as bytes. Keys are written in full: mostly the two nodes do not refer to them
//! again.

use crate::frame::interner::CounterRef;
use crate::frame::wire::{Unreadable, WireReader, WireWriter};
use crate::frame::{BucketLevels, MOST_LEVELS};
use crate::view::ViewId;
use hivemind_core::Timestamp;

pub(super) fn write_levels(writer: &mut WireWriter, levels: &BucketLevels) {
    let BucketLevels { view, since, count, first, each } = levels;
    writer.fixed(view.0);
    writer.number(since.as_nanos());
    writer.number(u64::from(*count));
    writer.number(u64::from(*first));
    writer.number(each.len() as u64);
    for (counter, level) in each {
        counter.write(writer);
        writer.number(u64::from(*level));
    }
}

pub(super) fn read_levels(reader: &mut WireReader<'_>) -> Result<BucketLevels, Unreadable> {
    let view = ViewId(reader.fixed()?);
    let since = Timestamp::from_nanos(reader.number()?);
    let small = |number: u64| u32::try_from(number).map_err(|_| Unreadable);
    let (count, first) = (small(reader.number()?)?, small(reader.number()?)?);
    let length = reader.count(MOST_LEVELS)?;
    let mut each = Vec::new();
    for _ in 0..length {
        each.push((CounterRef::read(reader)?, small(reader.number()?)?));
    }
    Ok(BucketLevels { view, since, count, first, each })
}
