//! Messages between replicated maps: one digest of everything; where digests differ, a hash of each text and
//! its write; then the entries that the other side lacks.

use super::{LONGEST_TEXT, MOST_ENTRIES, MOST_OTHERS, MapEntry};
use crate::frame::FRAME_BUDGET;
use crate::frame::wire::{Unreadable, WireReader, WireWriter};
use crate::view::NodeId;
use crate::view::owner::LONGEST_NAME;
use hivemind_core::Timestamp;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MapMessage {
    /// A digest of everything.
    Digest(u64),
    /// Hashes of each text and its write.
    Summary(Vec<(u64, u64)>),
    Entries(Vec<(Box<[u8]>, MapEntry)>),
}

const DIGEST: u8 = 1;
const SUMMARY: u8 = 2;
const ENTRIES: u8 = 3;

impl MapMessage {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut writer = WireWriter::default();
        match self {
            Self::Digest(digest) => {
                writer.byte(DIGEST);
                writer.fixed(*digest);
            }
            Self::Summary(known) => {
                writer.byte(SUMMARY);
                writer.number(known.len() as u64);
                for (text, entry) in known {
                    writer.fixed(*text);
                    writer.fixed(*entry);
                }
            }
            Self::Entries(entries) => {
                return Self::entries(entries.iter().map(|(text, entry)| (&**text, entry))).concat();
            }
        }
        writer.0
    }

    /// Entries in as many messages as needed.
    pub(super) fn entries<'a>(entries: impl IntoIterator<Item = (&'a [u8], &'a MapEntry)>) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        let (mut writer, mut count) = (WireWriter::default(), 0_u64);
        let message = |writer: &mut WireWriter, count: &mut u64| {
            let mut whole = WireWriter::default();
            whole.byte(ENTRIES);
            whole.number(std::mem::take(count));
            whole.0.append(&mut writer.0);
            whole.0
        };
        for (text, entry) in entries {
            writer.number(text.len() as u64);
            writer.0.extend_from_slice(text);
            writer.number(entry.written_ms);
            writer.text(entry.by.as_ref().map_or("", NodeId::as_str));
            writer.byte(u8::from(entry.is_removed));
            writer.number(entry.until.as_nanos());
            writer.number(entry.kept_until.as_nanos());
            count += 1;
            if writer.0.len() >= FRAME_BUDGET {
                messages.push(message(&mut writer, &mut count));
            }
        }
        if count > 0 {
            messages.push(message(&mut writer, &mut count));
        }
        messages
    }

    /// The decoded message; none for no bytes, or a message of a later version.
    pub(super) fn read(bytes: &[u8]) -> Result<Option<Self>, Unreadable> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let mut reader = WireReader(bytes);
        let message = match reader.byte()? {
            DIGEST => Self::Digest(reader.fixed()?),
            SUMMARY => {
                let count = reader.count(MOST_ENTRIES + MOST_OTHERS)?;
                let known: Result<_, Unreadable> =
                    (0..count).map(|_| Ok((reader.fixed()?, reader.fixed()?))).collect();
                Self::Summary(known?)
            }
            ENTRIES => {
                let count = reader.count(MOST_ENTRIES + MOST_OTHERS)?;
                let entries: Result<_, Unreadable> = (0..count).map(|_| read_entry(&mut reader)).collect();
                Self::Entries(entries?)
            }
            _ => return Ok(None),
        };
        Ok(Some(message))
    }
}

fn read_entry(reader: &mut WireReader<'_>) -> Result<(Box<[u8]>, MapEntry), Unreadable> {
    let length = reader.count(LONGEST_TEXT)?;
    let (text, rest) = reader.0.split_at_checked(length).ok_or(Unreadable)?;
    reader.0 = rest;
    let written_ms = reader.number()?;
    let by = reader.text(LONGEST_NAME)?;
    let by = (!by.is_empty()).then(|| NodeId::new(by));
    let is_removed = reader.at_most(1)? == 1;
    let until = Timestamp::from_nanos(reader.number()?);
    let kept_until = Timestamp::from_nanos(reader.number()?);
    Ok((text.into(), MapEntry { written_ms, by, is_removed, until, kept_until }))
}
