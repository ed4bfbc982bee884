//! Views as bytes. The views of one message share a list of their members, because consecutive views have
//! nearly the same ones: sixteen views of a hundred members with long names fit into one frame.

use crate::frame::wire::{Unreadable, WireReader, WireWriter};
use crate::view::NodeId;
use crate::view::owner::LONGEST_NAME;
use crate::view::view_log::MOST_VIEWS;
use crate::view::{Base, Round, View, ViewId};
use crate::view::{Generation, Member};
use hivemind_core::Timestamp;
use std::collections::BTreeMap;

pub(super) fn write_views(writer: &mut WireWriter, views: &[View]) {
    let mut places: BTreeMap<&Member, u64> = BTreeMap::new();
    let mut members: Vec<&Member> = Vec::new();
    for member in views.iter().flat_map(|view| view.members.iter().chain(&view.gone)) {
        places.entry(member).or_insert_with(|| {
            members.push(member);
            members.len() as u64 - 1
        });
    }
    writer.number(members.len() as u64);
    for member in members {
        writer.text(member.id.as_str());
        writer.number(member.generation.0);
    }
    writer.number(views.len() as u64);
    for view in views {
        writer.fixed(view.id().0);
        // A founding view has no base and a height of 0.
        writer.number(view.height);
        if let Some(base) = view.base {
            writer.fixed(base.0);
        }
        writer.number(view.effective_at.as_nanos());
        writer.number(u64::from(view.round.number));
        writer.text(view.round.proposer.as_str());
        for members in [&view.members, &view.gone] {
            writer.number(members.len() as u64);
            members.iter().for_each(|member| writer.number(places.get(member).copied().unwrap_or(0)));
        }
    }
}

pub(super) fn read_views(reader: &mut WireReader<'_>) -> Result<Vec<View>, Unreadable> {
    let count = reader.count(2 * MOST_VIEWS * View::MOST_MEMBERS)?;
    let mut members = Vec::new();
    for _ in 0..count {
        let id = NodeId::new(reader.text(LONGEST_NAME)?);
        members.push(Member { id, generation: Generation(reader.number()?) });
    }
    let count = reader.count(MOST_VIEWS)?;
    (0..count).map(|_| read_view(reader, &members)).collect()
}

fn read_view(reader: &mut WireReader<'_>, members: &[Member]) -> Result<View, Unreadable> {
    let id = ViewId(reader.fixed()?);
    let base = match reader.number()?.checked_sub(1) {
        Some(height) => Some(Base { id: ViewId(reader.fixed()?), height }),
        None => None,
    };
    let effective_at = Timestamp::from_nanos(reader.number()?);
    let number = u32::try_from(reader.number()?).map_err(|_| Unreadable)?;
    let round = Round { number, proposer: NodeId::new(reader.text(LONGEST_NAME)?) };
    let mut list = || -> Result<Vec<Member>, Unreadable> {
        let count = reader.count(View::MOST_MEMBERS)?;
        let mut listed = Vec::new();
        for _ in 0..count {
            let place = reader.count(members.len())?;
            listed.push(members.get(place).ok_or(Unreadable)?.clone());
        }
        Ok(listed)
    };
    let (members, gone) = (list()?, list()?);
    View::new(base, effective_at, round, members, gone).received(id).ok_or(Unreadable)
}
