//! What each node holds of a counter, as bytes.

use crate::frame::LONGEST_NAME;
use crate::owner::NodeId;
use crate::shares::{MOST_SHARES, Shares};
use crate::wire::{Reader, Unreadable, Writer};

pub(super) fn write_shares(writer: &mut Writer, shares: &Shares) {
    writer.number(shares.others);
    writer.number(shares.unaccounted);
    writer.number(shares.each.len() as u64);
    for (node, held) in &shares.each {
        writer.text(node.as_str());
        writer.number(*held);
    }
}

pub(super) fn read_shares(reader: &mut Reader<'_>) -> Result<Shares, Unreadable> {
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
