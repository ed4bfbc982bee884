//! A decision as bytes. Texts are cut, and so are lists: whatever a request brings, its record has a bound.

use crate::shown::kept;
use hivemind_core::{Entry, Timestamp};

pub use crate::trace::Door;

/// As much as people read.
const MOST_PARTS: usize = 8;
const MOST_ENTRIES: usize = 8;
const LONGEST_TEXT: usize = 128;
/// Of the head and of a part, without texts.
const HEAD: usize = 8 + 8 + 1 + 1;
const OF_PART: usize = 1 + 8 + 8 + 8 + 1;
/// No record is longer.
pub(super) const LONGEST: usize =
    HEAD + 1 + LONGEST_TEXT + MOST_PARTS * (OF_PART + MOST_ENTRIES * 2 * (1 + LONGEST_TEXT));

const IS_DENIED: u8 = 1;
const IS_CUT: u8 = 2;
const DOOR: u8 = 4;
const DOORS: u8 = 4;
const IS_HASHED: u8 = 16;
const LACKS_PARTS: u8 = 32;
const IS_OVER: u8 = 1;
const HAS_RULE: u8 = 2;
const HAS_REMAINING: u8 = 4;
const HAS_OWN_LIMIT: u8 = 8;

/// What is known of a whole decision.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    pub at: Timestamp,
    pub door: Door,
    pub domain: &'a str,
    pub is_denied: bool,
}

/// What became of one descriptor.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    pub entries: &'a [Entry<'a>],
    /// Below 0: they were given back. 0: it was only looked at.
    pub hits: i64,
    pub is_over: bool,
    /// The number of its rule's declaration.
    pub rule: Option<usize>,
    pub remaining: Option<u64>,
    /// Whether the request brought the limit along.
    pub has_own_limit: bool,
}

/// What is not kept of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lacks {
    Nothing,
    /// The ends of some.
    Texts,
    /// Descriptors, or entries of one: what is there is another request.
    Parts,
}

/// A decision that is read.
#[derive(Debug)]
pub struct Remembered<'b> {
    pub at: Timestamp,
    pub door: Door,
    pub domain: &'b str,
    pub is_denied: bool,
    /// What there was more of.
    pub lacks: Lacks,
    /// Whether a value is a hash of what it was.
    pub is_hashed: bool,
    pub parts: Vec<RememberedPart<'b>>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct RememberedPart<'b> {
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

const fn number(door: Door) -> u8 {
    match door {
        Door::Grpc => 0,
        Door::Json => 1,
        Door::Gateway => 2,
    }
}

/// As bytes, after what is there.
pub(super) fn write<'p>(
    draft: &mut Vec<u8>,
    count: u64,
    head: &Head<'_>,
    parts: impl ExactSizeIterator<Item = Part<'p>>,
) {
    let (mut lacks_parts, mut is_cut, mut is_hashed) = (parts.len() > MOST_PARTS, false, false);
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
        lacks_parts |= part.entries.len() > MOST_ENTRIES;
        for (key, value) in part.entries.iter().take(MOST_ENTRIES) {
            is_cut |= push(draft, key);
            let (value, is_another) = kept(key, value);
            is_cut |= push(draft, &value);
            is_hashed |= is_another;
        }
    }
    if let Some(flags) = draft.get_mut(flags_at) {
        *flags = flag(head.is_denied, IS_DENIED)
            | flag(is_cut, IS_CUT)
            | flag(lacks_parts, LACKS_PARTS)
            | flag(is_hashed, IS_HASHED)
            | (number(head.door) * DOOR);
    }
}

/// As much of a text as is kept.
pub fn cut(text: &str) -> &str {
    text.get(..text.floor_char_boundary(LONGEST_TEXT)).unwrap_or_default()
}

/// Says whether there was more of it.
fn push(draft: &mut Vec<u8>, text: &str) -> bool {
    let kept = cut(text);
    draft.push(u8::try_from(kept.len()).unwrap_or_default());
    draft.extend_from_slice(kept.as_bytes());
    kept.len() < text.len()
}

/// Which one it is, and when it was.
pub(super) fn begin(record: &[u8]) -> Option<(u64, Timestamp)> {
    let mut bytes = Bytes(record);
    Some((u64::from_le_bytes(bytes.array()?), Timestamp::from_nanos(u64::from_le_bytes(bytes.array()?))))
}

pub(super) fn read(record: &[u8]) -> Option<Remembered<'_>> {
    let mut bytes = Bytes(record);
    let _count = bytes.array::<8>()?;
    let at = Timestamp::from_nanos(u64::from_le_bytes(bytes.array()?));
    let [flags, parts] = bytes.array()?;
    let domain = bytes.text()?;
    let door = match flags / DOOR % DOORS {
        0 => Door::Grpc,
        1 => Door::Json,
        _ => Door::Gateway,
    };
    let parts = (0..parts).map(|_| bytes.part()).collect::<Option<Vec<_>>>()?;
    Some(Remembered {
        at,
        door,
        domain,
        is_denied: flags & IS_DENIED != 0,
        lacks: match (flags & LACKS_PARTS != 0, flags & IS_CUT != 0) {
            (true, _) => Lacks::Parts,
            (false, true) => Lacks::Texts,
            (false, false) => Lacks::Nothing,
        },
        is_hashed: flags & IS_HASHED != 0,
        parts,
    })
}

/// What is left of a record.
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

    fn part(&mut self) -> Option<RememberedPart<'b>> {
        let [flags] = self.array()?;
        let hits = i64::from_le_bytes(self.array()?);
        let [rule, remaining] = [u64::from_le_bytes(self.array()?), u64::from_le_bytes(self.array()?)];
        let [entries] = self.array()?;
        let entries = (0..entries).map(|_| Some((self.text()?, self.text()?))).collect::<Option<_>>()?;
        Some(RememberedPart {
            entries,
            hits,
            is_over: flags & IS_OVER != 0,
            rule: (flags & HAS_RULE != 0).then_some(rule),
            remaining: (flags & HAS_REMAINING != 0).then_some(remaining),
            has_own_limit: flags & HAS_OWN_LIMIT != 0,
        })
    }
}
