//! What each node holds of a counter, as bytes.

use crate::frame::holdings::{MOST_SHARES, Shares};
use crate::frame::wire::{Unreadable, WireReader, WireWriter};
use crate::view::NodeId;
use crate::view::owner::LONGEST_NAME;

pub(super) fn write_shares(writer: &mut WireWriter, shares: &Shares) {
    writer.number(shares.others);
    writer.number(shares.unaccounted);
    writer.number(shares.each.len() as u64);
    for (node, held) in &shares.each {
        writer.text(node.as_str());
        writer.number(*held);
    }
}

pub(super) fn read_shares(reader: &mut WireReader<'_>) -> Result<Shares, Unreadable> {
    let (others, unaccounted) = (reader.number()?, reader.number()?);
    let mut shares = Shares { others, unaccounted, ..Shares::default() };
    for _ in 0..reader.count(MOST_SHARES)? {
        let node = NodeId::parse(reader.text(LONGEST_NAME)?).map_err(|_| Unreadable)?;
        if shares.each.insert(node, reader.number()?).is_some() {
            return Err(Unreadable); // A node is listed once.
        }
    }
    Ok(shares)
}
