//! Encoding and decoding of frames. Decoding is bounded in every dimension: names, members, views, interner
//! entries, and total length; nothing is allocated for a count before the counted bytes are present.

mod holdings;
mod levels;
mod requests;
mod totals;
mod views;

use crate::frame::interner::{CounterRef, ReceiveInterner, SendInterner};
use crate::frame::wire::{Unreadable, WireReader, WireWriter};
use crate::frame::{Echo, Header, Item, LONGEST_FRAME, VERSION, WindowRef};
use crate::view::Generation;
use crate::view::ViewId;
use crate::view::proposal::Votes;
use crate::view::view_log::Root;
use crate::window::tag_at;
use hivemind_core::Timestamp;
use levels::{read_levels, write_levels};
use requests::{read_reply, read_want, write_reply, write_want};
use totals::{has_serial, read_report, read_update, write_report, write_update};
use views::{read_views, write_views};

/// A frame being written: its header, then messages until it is full.
pub struct Encoder<'a> {
    writer: WireWriter,
    header: Header,
    send_interner: &'a mut SendInterner,
}

impl<'a> Encoder<'a> {
    pub fn new(header: &Header, send_interner: &'a mut SendInterner) -> Self {
        let mut writer = WireWriter::default();
        writer.byte(VERSION);
        let (echo, slews) = (header.echo.is_some(), header.slew_us != 0);
        let bits = [header.leaving, header.head.is_some(), echo, header.rules != 0, slews];
        writer.byte(bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit)));
        writer.number(header.generation.0);
        writer.number(header.to.0);
        writer.number(header.time.as_nanos() / 1_000);
        writer.number(header.interner);
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
        Self { writer, header: Header { time, ..header.clone() }, send_interner }
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
            Item::ViewLog { root, views } => {
                self.writer.byte(1);
                self.writer.number(root.founded.as_nanos());
                self.writer.fixed(root.id.0);
                write_views(&mut self.writer, views);
            }
            Item::Proposal { view, votes } => {
                self.writer.byte(2);
                write_views(&mut self.writer, std::slice::from_ref(view));
                self.votes(votes);
            }
            Item::Vote { view, votes } => {
                self.writer.byte(7);
                self.writer.fixed(view.0);
                self.votes(votes);
            }
            Item::Report(window_ref, report) => {
                self.window_ref(3, window_ref);
                write_report(&mut self.writer, window_ref, report);
            }
            Item::Update(window_ref, update) => {
                self.window_ref(4, window_ref);
                write_update(&mut self.writer, window_ref, update);
            }
            Item::Ask { id, window_ref, report, want } => {
                self.window_ref(5, window_ref);
                self.writer.number(*id);
                write_report(&mut self.writer, window_ref, report);
                write_want(&mut self.writer, want);
            }
            Item::Answer { id, window_ref, update, reply } => {
                self.window_ref(6, window_ref);
                self.writer.number(*id);
                write_update(&mut self.writer, window_ref, update);
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
    fn window_ref(&mut self, kind: u8, window_ref: &WindowRef) {
        let is_head = self.header.head == Some(window_ref.view);
        self.writer.byte(kind | u8::from(!is_head) << 4);
        if !is_head {
            self.writer.fixed(window_ref.view.0);
        }
        self.send_interner.write(&window_ref.counter, &mut self.writer);
        let present = tag_at(&window_ref.counter.limit, self.header.time);
        self.writer.signed(window_ref.tag.wrapping_sub(present).cast_signed());
    }
}

/// Reads a frame's header. The rest is for [`Items`].
pub fn read_header(bytes: &[u8]) -> Result<(Header, WireReader<'_>), Unreadable> {
    if bytes.len() > LONGEST_FRAME {
        return Err(Unreadable);
    }
    let mut reader = WireReader(bytes);
    if reader.byte()? != VERSION {
        return Err(Unreadable);
    }
    let flags = reader.byte()?;
    let generation = Generation(reader.number()?);
    let to = Generation(reader.number()?);
    let time = Timestamp::from_nanos(reader.number()?.checked_mul(1_000).ok_or(Unreadable)?);
    let interner = reader.number()?;
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
        Header { generation, time, slew_us, head, leaving, rules, interner, known, known_of, to, echo };
    Ok((header, reader))
}

/// The messages of a frame, in order.
pub struct Items<'a> {
    pub reader: WireReader<'a>,
    pub header: &'a Header,
    pub receive_interner: &'a mut ReceiveInterner,
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
                Item::ViewLog { root, views: read_views(&mut self.reader)? }
            }
            2 => {
                let view = read_views(&mut self.reader)?.pop().ok_or(Unreadable)?;
                Item::Proposal { view, votes: self.votes()? }
            }
            7 => Item::Vote { view: ViewId(self.reader.fixed()?), votes: self.votes()? },
            3 => {
                let window_ref = self.window_ref(kind)?;
                Item::Report(window_ref, read_report(&mut self.reader, &window_ref)?)
            }
            4 => {
                let window_ref = self.window_ref(kind)?;
                Item::Update(window_ref, read_update(&mut self.reader, &window_ref)?)
            }
            5 => {
                let (window_ref, id) = (self.window_ref(kind)?, self.reader.number()?);
                let report = read_report(&mut self.reader, &window_ref)?;
                Item::Ask { id, window_ref, report, want: read_want(&mut self.reader)? }
            }
            6 => {
                let (window_ref, id) = (self.window_ref(kind)?, self.reader.number()?);
                let update = read_update(&mut self.reader, &window_ref)?;
                Item::Answer { id, window_ref, update, reply: read_reply(&mut self.reader)? }
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

    fn window_ref(&mut self, kind: u8) -> Result<WindowRef, Unreadable> {
        let view = match kind >> 4 {
            0 => self.header.head.ok_or(Unreadable)?,
            1 => ViewId(self.reader.fixed()?),
            _ => return Err(Unreadable),
        };
        let counter: CounterRef = self.receive_interner.read(&mut self.reader)?;
        let present = tag_at(&counter.limit, self.header.time);
        let tag = present.wrapping_add(self.reader.signed()?.cast_unsigned());
        let window_ref = WindowRef { counter, view, tag };
        // A bucket has one window: another number would be another bucket.
        if has_serial(&window_ref) && tag != 0 { Err(Unreadable) } else { Ok(window_ref) }
    }
}

#[cfg(test)]
mod tests;
