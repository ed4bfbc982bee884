//! Frames to bytes and back. What is read is bounded in every direction: names, members,
//! views, entries of the dictionary, and the length of the whole; nothing is allocated
//! for a number before the bytes that it counts are there.

use crate::chain::Root;
use crate::dictionary::{Heard, Spoken, Subject};
use crate::frame::{Echo, Header, Item, LONGEST_FRAME, Place, Reply, Report, VERSION, Want, Word};
use crate::member::Generation;
use crate::motion::Votes;
use crate::view::ViewId;
use crate::wire::{Reader, Unreadable, Writer};
use hivemind_core::algorithm::Action;
use hivemind_core::store::{Outcome, Verdict};
use hivemind_core::{Limit, Timestamp};
use std::time::Duration;
use views::{read_views, write_views};

/// The number of the window of `limit` at `time`; 0 for a bucket, which has none.
pub(crate) fn tag_at(limit: &Limit, time: Timestamp) -> u64 {
    match limit {
        Limit::TokenBucket(_) => 0,
        _ => time.as_nanos() / period_nanos(limit),
    }
}

pub(crate) fn period_nanos(limit: &Limit) -> u64 {
    u64::try_from(limit.period().length().as_nanos()).unwrap_or(u64::MAX)
}

/// A frame being written: its header, then items until it is full.
pub(crate) struct Encoder<'a> {
    writer: Writer,
    header: Header,
    spoken: &'a mut Spoken,
}

impl<'a> Encoder<'a> {
    pub(crate) fn new(header: &Header, spoken: &'a mut Spoken) -> Self {
        let mut writer = Writer::default();
        writer.byte(VERSION);
        let (echo, slews) = (header.echo.is_some(), header.slew_us != 0);
        let bits = [header.leaving, header.head.is_some(), echo, header.rules != 0, slews];
        writer.byte(bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit)));
        writer.number(header.generation.0);
        writer.number(header.to.0);
        writer.number(header.time.as_nanos() / 1_000);
        writer.number(u64::from(header.known));
        if let Some(head) = header.head {
            writer.fixed(head.0);
        }
        if let Some(Echo { time_us, held_us }) = header.echo {
            // Clocks are mostly alike, so their difference is shorter than a time.
            writer.signed(time_us.wrapping_sub(header.time.as_nanos() / 1_000).cast_signed());
            writer.number(held_us);
        }
        if header.rules != 0 {
            writer.number(u64::from(header.rules));
        }
        if slews {
            writer.signed(header.slew_us);
        }
        // Tags are told relative to the time as the other side reads it.
        let time = Timestamp::from_nanos(header.time.as_nanos() / 1_000 * 1_000);
        Self { writer, header: Header { time, ..header.clone() }, spoken }
    }

    pub(crate) fn length(&self) -> usize {
        self.writer.0.len()
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.writer.0
    }

    pub(crate) fn push(&mut self, item: &Item) {
        match item {
            Item::Chain { root, views } => {
                self.writer.byte(1);
                self.writer.number(root.founded.as_nanos());
                self.writer.fixed(root.id.0);
                write_views(&mut self.writer, views);
            }
            Item::Motion { view, votes } => {
                self.writer.byte(2);
                write_views(&mut self.writer, std::slice::from_ref(view));
                self.votes(votes);
            }
            Item::Vote { view, votes } => {
                self.writer.byte(7);
                self.writer.fixed(view.0);
                self.votes(votes);
            }
            Item::Report(place, report) => {
                self.place(3, place);
                write_report(&mut self.writer, place, report);
            }
            Item::Word(place, word) => {
                self.place(4, place);
                write_word(&mut self.writer, place, word);
            }
            Item::Ask { id, place, report, want } => {
                self.place(5, place);
                self.writer.number(*id);
                write_report(&mut self.writer, place, report);
                write_want(&mut self.writer, want);
            }
            Item::Answer { id, place, word, reply } => {
                self.place(6, place);
                self.writer.number(*id);
                write_word(&mut self.writer, place, word);
                write_reply(&mut self.writer, reply);
            }
        }
    }

    fn votes(&mut self, (consents, seen, released): &Votes) {
        for votes in [consents, seen, released] {
            self.writer.wide(*votes);
        }
    }

    /// The kind of an item, and where it belongs: mostly the newest view and the present window.
    fn place(&mut self, kind: u8, place: &Place) {
        let is_head = self.header.head == Some(place.view);
        self.writer.byte(kind | u8::from(!is_head) << 4);
        if !is_head {
            self.writer.fixed(place.view.0);
        }
        self.spoken.write(&place.subject, &mut self.writer);
        let present = tag_at(&place.subject.limit, self.header.time);
        self.writer.signed(place.tag.wrapping_sub(present).cast_signed());
    }
}

/// Reads a frame's header. The rest is for [`Items`].
pub(crate) fn read_header(bytes: &[u8]) -> Result<(Header, Reader<'_>), Unreadable> {
    if bytes.len() > LONGEST_FRAME {
        return Err(Unreadable);
    }
    let mut reader = Reader(bytes);
    if reader.byte()? != VERSION {
        return Err(Unreadable);
    }
    let flags = reader.byte()?;
    let generation = Generation(reader.number()?);
    let to = Generation(reader.number()?);
    let time = Timestamp::from_nanos(reader.number()?.checked_mul(1_000).ok_or(Unreadable)?);
    let known = u32::try_from(reader.number()?).map_err(|_| Unreadable)?;
    let head = if flags & 2 == 0 { None } else { Some(ViewId(reader.fixed()?)) };
    let echo = if flags & 4 == 0 {
        None
    } else {
        let time_us = (time.as_nanos() / 1_000).wrapping_add(reader.signed()?.cast_unsigned());
        Some(Echo { time_us, held_us: reader.number()? })
    };
    let leaving = flags & 1 == 1;
    let rules = if flags & 8 == 0 { 0 } else { reader.number()? };
    let rules = u32::try_from(rules).map_err(|_| Unreadable)?;
    let slew_us = if flags & 16 == 0 { 0 } else { reader.signed()? };
    Ok((Header { generation, time, slew_us, head, leaving, rules, known, to, echo }, reader))
}

/// The items of a frame, one after the other.
pub(crate) struct Items<'a> {
    pub(crate) reader: Reader<'a>,
    pub(crate) header: &'a Header,
    pub(crate) heard: &'a mut Heard,
}

impl Items<'_> {
    /// The next item; none at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Item>, Unreadable> {
        if self.reader.is_empty() {
            return Ok(None);
        }
        let kind = self.reader.byte()?;
        let item = match kind & 0x0f {
            1 => {
                let founded = Timestamp::from_nanos(self.reader.number()?);
                let root = Root { founded, id: ViewId(self.reader.fixed()?) };
                Item::Chain { root, views: read_views(&mut self.reader)? }
            }
            2 => {
                let view = read_views(&mut self.reader)?.pop().ok_or(Unreadable)?;
                Item::Motion { view, votes: self.votes()? }
            }
            7 => Item::Vote { view: ViewId(self.reader.fixed()?), votes: self.votes()? },
            3 => {
                let place = self.place(kind)?;
                Item::Report(place, read_report(&mut self.reader, &place)?)
            }
            4 => {
                let place = self.place(kind)?;
                Item::Word(place, read_word(&mut self.reader, &place)?)
            }
            5 => {
                let (place, id) = (self.place(kind)?, self.reader.number()?);
                let report = read_report(&mut self.reader, &place)?;
                Item::Ask { id, place, report, want: read_want(&mut self.reader)? }
            }
            6 => {
                let (place, id) = (self.place(kind)?, self.reader.number()?);
                let word = read_word(&mut self.reader, &place)?;
                Item::Answer { id, place, word, reply: read_reply(&mut self.reader)? }
            }
            _ => return Err(Unreadable),
        };
        Ok(Some(item))
    }

    fn votes(&mut self) -> Result<Votes, Unreadable> {
        Ok((self.reader.wide()?, self.reader.wide()?, self.reader.wide()?))
    }

    fn place(&mut self, kind: u8) -> Result<Place, Unreadable> {
        let view = match kind >> 4 {
            0 => self.header.head.ok_or(Unreadable)?,
            1 => ViewId(self.reader.fixed()?),
            _ => return Err(Unreadable),
        };
        let subject: Subject = self.heard.read(&mut self.reader)?;
        let present = tag_at(&subject.limit, self.header.time);
        let tag = present.wrapping_add(self.reader.signed()?.cast_unsigned());
        Ok(Place { subject, view, tag })
    }
}

/// Only buckets have accounts that end before their page does.
fn has_serial(place: &Place) -> bool {
    matches!(place.subject.limit, Limit::TokenBucket(_))
}

fn write_report(writer: &mut Writer, place: &Place, report: &Report) {
    if has_serial(place) {
        writer.number(report.serial);
    }
    writer.number(report.spent);
    writer.number(report.returned);
    // Most refuse nothing and give nothing back, so those numbers are left out where they are 0.
    let rare = [report.refused, report.refunded, report.given, report.owed, report.birth];
    let present = rare.iter().rev().fold(0, |bits, total| bits << 1 | u64::from(*total > 0));
    let bits = present << 1 | u64::from(report.eventual);
    writer.number(report.granted_seen << 1 | u64::from(bits != 0));
    if bits != 0 {
        writer.number(bits);
    }
    rare.iter().filter(|total| **total > 0).for_each(|total| writer.number(*total));
}

fn read_report(reader: &mut Reader<'_>, place: &Place) -> Result<Report, Unreadable> {
    let serial = if has_serial(place) { reader.number()? } else { 0 };
    let (spent, returned, seen) = (reader.number()?, reader.number()?, reader.number()?);
    let bits = if seen & 1 == 1 { reader.number()? } else { 0 };
    let mut rare = |bit: u64| if bits & bit == bit { reader.number() } else { Ok(0) };
    let (refused, refunded, given, owed) = (rare(2)?, rare(4)?, rare(8)?, rare(16)?);
    let birth = rare(32)?;
    let (granted_seen, eventual) = (seen >> 1, bits & 1 == 1);
    Ok(Report { serial, birth, spent, returned, granted_seen, refused, refunded, given, owed, eventual })
}

fn write_word(writer: &mut Writer, place: &Place, word: &Word) {
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

fn read_word(reader: &mut Reader<'_>, place: &Place) -> Result<Word, Unreadable> {
    let serial = if has_serial(place) { reader.number()? } else { 0 };
    let granted = reader.number()?;
    let (settled_seen, left, others) = (reader.number()?, reader.signed()?, reader.number()?);
    let resets = if granted & 2 == 2 { reader.number()? } else { 0 };
    let (granted, recall) = (granted >> 2, granted & 1 == 1);
    Ok(Word { serial, granted, settled_seen, left, others, recall, resets })
}

const ACTIONS: [Action; 6] = [
    Action::Spend { count_refusal: false },
    Action::Spend { count_refusal: true },
    Action::Peek,
    Action::Refund,
    Action::Debit,
    Action::Count,
];

fn write_want(writer: &mut Writer, want: &Want) {
    match want {
        Want::Lend { need, ahead } => {
            writer.byte(0);
            writer.number(*need);
            writer.number(*ahead);
        }
        Want::Do { action, cost } | Want::Tell { action, cost } => {
            let place = ACTIONS.iter().position(|known| known == action).unwrap_or(0);
            writer.byte(if matches!(want, Want::Do { .. }) { 1 } else { 4 });
            writer.byte(u8::try_from(place).unwrap_or(0));
            writer.number(*cost);
        }
        Want::Look => writer.byte(2),
        Want::Forget => writer.byte(3),
        Want::Undo { of } => {
            writer.byte(5);
            writer.number(*of);
        }
    }
}

fn read_want(reader: &mut Reader<'_>) -> Result<Want, Unreadable> {
    Ok(match reader.byte()? {
        0 => Want::Lend { need: reader.number()?, ahead: reader.number()? },
        kind @ (1 | 4) => {
            let action = *ACTIONS.get(usize::from(reader.byte()?)).ok_or(Unreadable)?;
            let cost = reader.number()?;
            if kind == 1 { Want::Do { action, cost } } else { Want::Tell { action, cost } }
        }
        2 => Want::Look,
        3 => Want::Forget,
        5 => Want::Undo { of: reader.number()? },
        _ => return Err(Unreadable),
    })
}

fn write_reply(writer: &mut Writer, reply: &Reply) {
    match reply {
        Reply::Lent => writer.byte(0),
        Reply::Exhausted => writer.byte(1),
        Reply::Elsewhere => writer.byte(2),
        Reply::Seen(None) => writer.byte(3),
        Reply::Seen(Some((since, count))) => {
            writer.byte(4);
            writer.fixed(*since);
            writer.fixed(*count);
        }
        Reply::Done(verdict) => {
            let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
            let (how, wait) = match verdict.outcome {
                Outcome::Admitted => (5, 0),
                Outcome::Refused { retry_after: None } => (6, 0),
                Outcome::Refused { retry_after: Some(wait) } => (7, nanos(wait)),
            };
            writer.byte(how);
            writer.number(verdict.available);
            writer.number(verdict.remaining);
            writer.number(nanos(verdict.reset_after));
            writer.number(wait);
        }
    }
}

fn read_reply(reader: &mut Reader<'_>) -> Result<Reply, Unreadable> {
    Ok(match reader.byte()? {
        0 => Reply::Lent,
        1 => Reply::Exhausted,
        2 => Reply::Elsewhere,
        3 => Reply::Seen(None),
        4 => Reply::Seen(Some((reader.fixed()?, reader.fixed()?))),
        how @ 5..=7 => {
            let (available, remaining) = (reader.number()?, reader.number()?);
            let reset_after = Duration::from_nanos(reader.number()?);
            let wait = Duration::from_nanos(reader.number()?);
            let outcome = match how {
                5 => Outcome::Admitted,
                6 => Outcome::Refused { retry_after: None },
                _ => Outcome::Refused { retry_after: Some(wait) },
            };
            Reply::Done(Verdict { outcome, available, remaining, reset_after })
        }
        _ => return Err(Unreadable),
    })
}

mod views;

#[cfg(test)]
mod tests;
