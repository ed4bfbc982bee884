//! Messages between replicated maps: one digest of everything; where digests differ, a hash of each text and
//! its write; then the entries that the other side lacks.

use super::{LONGEST_TEXT, MOST_NOTES, MOST_OTHERS, Note};
use crate::frame::{FRAME_BUDGET, LONGEST_NAME};
use crate::owner::NodeId;
use crate::wire::{Reader, Unreadable, Writer};
use hivemind_core::Timestamp;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Word {
    /// A digest of everything.
    Digest(u64),
    /// Hashes of each text and its write.
    Summary(Vec<(u64, u64)>),
    Notes(Vec<(Box<[u8]>, Note)>),
}

const DIGEST: u8 = 1;
const SUMMARY: u8 = 2;
const NOTES: u8 = 3;

impl Word {
    pub(super) fn written(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        match self {
            Self::Digest(digest) => {
                writer.byte(DIGEST);
                writer.fixed(*digest);
            }
            Self::Summary(known) => {
                writer.byte(SUMMARY);
                writer.number(known.len() as u64);
                for (text, note) in known {
                    writer.fixed(*text);
                    writer.fixed(*note);
                }
            }
            Self::Notes(notes) => {
                return Self::notes(notes.iter().map(|(text, note)| (&**text, note))).concat();
            }
        }
        writer.0
    }

    /// Entries in as many messages as needed.
    pub(super) fn notes<'a>(notes: impl IntoIterator<Item = (&'a [u8], &'a Note)>) -> Vec<Vec<u8>> {
        let mut messages = Vec::new();
        let (mut writer, mut count) = (Writer::default(), 0_u64);
        let message = |writer: &mut Writer, count: &mut u64| {
            let mut whole = Writer::default();
            whole.byte(NOTES);
            whole.number(std::mem::take(count));
            whole.0.append(&mut writer.0);
            whole.0
        };
        for (text, note) in notes {
            writer.number(text.len() as u64);
            writer.0.extend_from_slice(text);
            writer.number(note.written_ms);
            writer.text(note.by.as_ref().map_or("", NodeId::as_str));
            writer.byte(u8::from(note.is_down));
            writer.number(note.until.as_nanos());
            writer.number(note.kept_until.as_nanos());
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
        let mut reader = Reader(bytes);
        let word = match reader.byte()? {
            DIGEST => Self::Digest(reader.fixed()?),
            SUMMARY => {
                let count = reader.count(MOST_NOTES + MOST_OTHERS)?;
                let known: Result<_, Unreadable> =
                    (0..count).map(|_| Ok((reader.fixed()?, reader.fixed()?))).collect();
                Self::Summary(known?)
            }
            NOTES => {
                let count = reader.count(MOST_NOTES + MOST_OTHERS)?;
                let notes: Result<_, Unreadable> = (0..count).map(|_| read_note(&mut reader)).collect();
                Self::Notes(notes?)
            }
            _ => return Ok(None),
        };
        Ok(Some(word))
    }
}

fn read_note(reader: &mut Reader<'_>) -> Result<(Box<[u8]>, Note), Unreadable> {
    let length = reader.count(LONGEST_TEXT)?;
    let (text, rest) = reader.0.split_at_checked(length).ok_or(Unreadable)?;
    reader.0 = rest;
    let written_ms = reader.number()?;
    let by = reader.text(LONGEST_NAME)?;
    let by = (!by.is_empty()).then(|| NodeId::new(by));
    let is_down = reader.at_most(1)? == 1;
    let until = Timestamp::from_nanos(reader.number()?);
    let kept_until = Timestamp::from_nanos(reader.number()?);
    Ok((text.into(), Note { written_ms, by, is_down, until, kept_until }))
}
