//! Encoding of a decision. Texts and lists are truncated, so a record has a maximum size for any request.

use crate::Frontend;
use crate::redact::redact;
use hivemind_core::{Entry, Timestamp};

/// Longest text in bytes.
const MOST_PARTS: usize = 8;
const MOST_ENTRIES: usize = 8;
const LONGEST_TEXT: usize = 128;
/// Bytes of the head and of a part, without texts.
const HEAD: usize = 8 + 8 + 1 + 1;
const OF_PART: usize = 1 + 8 + 8 + 8 + 1;
/// Longest record.
pub(super) const LONGEST: usize =
    HEAD + 1 + LONGEST_TEXT + MOST_PARTS * (OF_PART + MOST_ENTRIES * 2 * (1 + LONGEST_TEXT));

const IS_DENIED: u8 = 1;
const IS_CUT: u8 = 2;
const FRONTEND: u8 = 4;
const FRONTENDS: u8 = 4;
const IS_HASHED: u8 = 16;
const HAS_DROPPED_ENTRIES: u8 = 32;
const IS_OVER: u8 = 1;
const HAS_RULE: u8 = 2;
const HAS_REMAINING: u8 = 4;
const HAS_OWN_LIMIT: u8 = 8;

/// The parts of a decision that concern all descriptors.
#[derive(Clone, Copy, Debug)]
pub struct DecisionHead<'a> {
    pub at: Timestamp,
    pub frontend: Frontend,
    pub domain: &'a str,
    pub is_denied: bool,
}

/// The result of one descriptor.
#[derive(Clone, Copy, Debug)]
pub struct DescriptorOutcome<'a> {
    pub entries: &'a [Entry<'a>],
    /// Negative for a refund, 0 for a peek.
    pub hits: i64,
    pub is_over: bool,
    /// Index of its rule's declaration.
    pub rule: Option<usize>,
    pub remaining: Option<u64>,
    /// Whether the request contained the limit.
    pub has_own_limit: bool,
}

/// How much of a decision was dropped to fit a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truncation {
    None,
    /// The ends of long texts.
    Values,
    /// Whole descriptors, or entries of one: the record is no longer the same request.
    Entries,
}

/// A decoded decision.
#[derive(Debug)]
pub struct DecisionRecord<'b> {
    pub at: Timestamp,
    pub frontend: Frontend,
    pub domain: &'b str,
    pub is_denied: bool,
    /// What was dropped.
    pub truncation: Truncation,
    /// Whether a value is the hash of a credential.
    pub is_hashed: bool,
    pub parts: Vec<DescriptorRecord<'b>>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct DescriptorRecord<'b> {
    pub entries: Vec<Entry<'b>>,
    pub hits: i64,
    pub is_over: bool,
    pub rule: Option<u64>,
    pub remaining: Option<u64>,
    pub has_own_limit: bool,
}

fn flag(is_set: bool, flag: u8) -> u8 {
    if is_set { flag } else { 0 }
}

const fn number(frontend: Frontend) -> u8 {
    match frontend {
        Frontend::Grpc => 0,
        Frontend::Json => 1,
        Frontend::Gateway => 2,
    }
}

/// Appends the encoded decision.
pub(super) fn write<'p>(
    draft: &mut Vec<u8>,
    count: u64,
    head: &DecisionHead<'_>,
    parts: impl ExactSizeIterator<Item = DescriptorOutcome<'p>>,
) {
    let (mut has_dropped_entries, mut is_cut, mut is_hashed) = (parts.len() > MOST_PARTS, false, false);
    draft.extend_from_slice(&count.to_le_bytes());
    draft.extend_from_slice(&head.at.as_nanos().to_le_bytes());
    let flags_at = draft.len();
    draft.extend([0, u8::try_from(parts.len().min(MOST_PARTS)).unwrap_or_default()]);
    is_cut |= push(draft, head.domain);
    for part in parts.take(MOST_PARTS) {
        let flags = flag(part.is_over, IS_OVER)
            | flag(part.rule.is_some(), HAS_RULE)
            | flag(part.remaining.is_some(), HAS_REMAINING)
            | flag(part.has_own_limit, HAS_OWN_LIMIT);
        draft.push(flags);
        draft.extend_from_slice(&part.hits.to_le_bytes());
        draft.extend_from_slice(&(part.rule.unwrap_or_default() as u64).to_le_bytes());
        draft.extend_from_slice(&part.remaining.unwrap_or_default().to_le_bytes());
        draft.push(u8::try_from(part.entries.len().min(MOST_ENTRIES)).unwrap_or_default());
        has_dropped_entries |= part.entries.len() > MOST_ENTRIES;
        for (key, value) in part.entries.iter().take(MOST_ENTRIES) {
            is_cut |= push(draft, key);
            let (value, is_another) = redact(key, value);
            is_cut |= push(draft, &value);
            is_hashed |= is_another;
        }
    }
    if let Some(flags) = draft.get_mut(flags_at) {
        *flags = flag(head.is_denied, IS_DENIED)
            | flag(is_cut, IS_CUT)
            | flag(has_dropped_entries, HAS_DROPPED_ENTRIES)
            | flag(is_hashed, IS_HASHED)
            | (number(head.frontend) * FRONTEND);
    }
}

/// The stored part of a text.
pub fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(LONGEST_TEXT)).unwrap_or_default()
}

/// Returns whether the text was truncated.
fn push(draft: &mut Vec<u8>, text: &str) -> bool {
    let kept = cut(text);
    draft.push(u8::try_from(kept.len()).unwrap_or_default());
    draft.extend_from_slice(kept.as_bytes());
    kept.len() < text.len()
}

/// Its number and its time.
pub(super) fn begin(record: &[u8]) -> Option<(u64, Timestamp)> {
    let mut bytes = Bytes(record);
    Some((u64::from_le_bytes(bytes.array()?), Timestamp::from_nanos(u64::from_le_bytes(bytes.array()?))))
}

pub(super) fn read(record: &[u8]) -> Option<DecisionRecord<'_>> {
    let mut bytes = Bytes(record);
    let _count = bytes.array::<8>()?;
    let at = Timestamp::from_nanos(u64::from_le_bytes(bytes.array()?));
    let [flags, parts] = bytes.array()?;
    let domain = bytes.text()?;
    let frontend = match flags / FRONTEND % FRONTENDS {
        0 => Frontend::Grpc,
        1 => Frontend::Json,
        _ => Frontend::Gateway,
    };
    let parts = (0..parts).map(|_| bytes.part()).collect::<Option<Vec<_>>>()?;
    Some(DecisionRecord {
        at,
        frontend,
        domain,
        is_denied: flags & IS_DENIED != 0,
        truncation: match (flags & HAS_DROPPED_ENTRIES != 0, flags & IS_CUT != 0) {
            (true, _) => Truncation::Entries,
            (false, true) => Truncation::Values,
            (false, false) => Truncation::None,
        },
        is_hashed: flags & IS_HASHED != 0,
        parts,
    })
}

/// The rest of a record to decode.
struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn text(&mut self) -> Option<&'b str> {
        let [length] = self.array()?;
        let (text, rest) = self.0.split_at_checked(length.into())?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }

    fn part(&mut self) -> Option<DescriptorRecord<'b>> {
        let [flags] = self.array()?;
        let hits = i64::from_le_bytes(self.array()?);
        let [rule, remaining] = [u64::from_le_bytes(self.array()?), u64::from_le_bytes(self.array()?)];
        let [entries] = self.array()?;
        let entries = (0..entries).map(|_| Some((self.text()?, self.text()?))).collect::<Option<_>>()?;
        Some(DescriptorRecord {
            entries,
            hits,
            is_over: flags & IS_OVER != 0,
            rule: (flags & HAS_RULE != 0).then_some(rule),
            remaining: (flags & HAS_REMAINING != 0).then_some(remaining),
            has_own_limit: flags & HAS_OWN_LIMIT != 0,
        })
    }
}
