//! Encoding and decoding of frames. Decoding is bounded in every dimension: names, members, views, interner
//! entries, and total length; nothing is allocated for a count before the counted bytes are present.

mod asks;
mod levels;
mod shares;
mod totals;
mod views;

use crate::chain::Root;
use crate::dictionary::{Heard, Spoken, Subject};
use crate::frame::{Echo, Header, Item, LONGEST_FRAME, Place, VERSION};
use crate::member::Generation;
use crate::motion::Votes;
use crate::view::ViewId;
use crate::window::tag_at;
use crate::wire::{Reader, Unreadable, Writer};
use asks::{read_reply, read_want, write_reply, write_want};
use hivemind_core::Timestamp;
use levels::{read_levels, write_levels};
use totals::{has_serial, read_report, read_word, write_report, write_word};
use views::{read_views, write_views};

/// A frame being written: its header, then messages until it is full.
pub struct Encoder<'a> {
    writer: Writer,
    header: Header,
    spoken: &'a mut Spoken,
}

impl<'a> Encoder<'a> {
    pub fn new(header: &Header, spoken: &'a mut Spoken) -> Self {
        let mut writer = Writer::default();
        writer.byte(VERSION);
        let (echo, slews) = (header.echo.is_some(), header.slew_us != 0);
        let bits = [header.leaving, header.head.is_some(), echo, header.rules != 0, slews];
        writer.byte(bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit)));
        writer.number(header.generation.0);
        writer.number(header.to.0);
        writer.number(header.time.as_nanos() / 1_000);
        writer.number(header.dictionary);
        writer.number(u64::from(header.known));
        writer.number(header.known_of);
        if let Some(head) = header.head {
            writer.fixed(head.0);
        }
        if let Some(Echo { time_us, held_us }) = header.echo {
            // Clocks mostly agree, so the difference is shorter than a time.
            writer.signed(time_us.wrapping_sub(header.time.as_nanos() / 1_000).cast_signed());
            writer.number(held_us);
        }
        if header.rules != 0 {
            writer.number(u64::from(header.rules));
        }
        if slews {
            writer.signed(header.slew_us);
        }
        // Tags are relative to the time as the receiver reads it.
        let time = Timestamp::from_nanos(header.time.as_nanos() / 1_000 * 1_000);
        Self { writer, header: Header { time, ..header.clone() }, spoken }
    }

    pub(crate) fn length(&self) -> usize {
        self.writer.0.len()
    }

    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.writer.0
    }

    pub fn push(&mut self, item: &Item) {
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
            Item::Levels(levels) => {
                self.writer.byte(8);
                write_levels(&mut self.writer, levels);
            }
            Item::Taken { view, taken } => {
                self.writer.byte(9);
                self.writer.fixed(view.0);
                self.writer.number(u64::from(*taken));
            }
        }
    }

    fn votes(&mut self, (consents, seen, released): &Votes) {
        for votes in [consents, seen, released] {
            self.writer.wide(*votes);
        }
    }

    /// The kind of a message and its window: mostly the newest view and the present window.
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
pub fn read_header(bytes: &[u8]) -> Result<(Header, Reader<'_>), Unreadable> {
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
    let dictionary = reader.number()?;
    let known = u32::try_from(reader.number()?).map_err(|_| Unreadable)?;
    let known_of = reader.number()?;
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
    let header =
        Header { generation, time, slew_us, head, leaving, rules, dictionary, known, known_of, to, echo };
    Ok((header, reader))
}

/// The messages of a frame, in order.
pub struct Items<'a> {
    pub reader: Reader<'a>,
    pub header: &'a Header,
    pub heard: &'a mut Heard,
}

impl Items<'_> {
    /// The next message; none at the end.
    pub fn next_item(&mut self) -> Result<Option<Item>, Unreadable> {
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
            8 => Item::Levels(read_levels(&mut self.reader)?),
            9 => {
                let view = ViewId(self.reader.fixed()?);
                let taken = u32::try_from(self.reader.number()?).map_err(|_| Unreadable)?;
                Item::Taken { view, taken }
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
        let place = Place { subject, view, tag };
        // A bucket has one window: another number would be another bucket.
        if has_serial(&place) && tag != 0 { Err(Unreadable) } else { Ok(place) }
    }
}

#[cfg(test)]
mod tests;
