//! A `RateLimitRequest`, decoded without copying.

use super::CallError;
use super::field_reader::{DecodeError, FieldReader, MAX_DEPTH};
use crate::proto::envoy::r#type::v3::RateLimitUnit;
use hivemind_core::store::Op;
use hivemind_core::{Cost, Descriptor, Entry, Limit, Period};
use serde_json::{Map, Value};
use smallvec::SmallVec;
use std::ops::Range;

/// Maximum number of descriptors in a request.
pub(super) const MAX_DESCRIPTORS: usize = 256;

/// The descriptors in the engine's types.
pub(crate) type Descriptors<'a> = SmallVec<[Descriptor<'a>; 4]>;

/// A decoded request.
#[derive(Debug, Default)]
pub struct DecodedRequest<'a> {
    pub domain: &'a str,
    pub hits_addend: u32,
    /// The entries of all descriptors in sequence.
    entries: SmallVec<[Entry<'a>; 8]>,
    descriptors: SmallVec<[RawDescriptor; 4]>,
    /// The number of descriptors; above the maximum they are only counted.
    count: usize,
}

/// A decoded descriptor.
#[derive(Debug, Default)]
pub struct RawDescriptor {
    entries: Range<usize>,
    /// Requests and unit.
    pub limit: Option<(u32, i32)>,
    pub hits_addend: Option<u64>,
    pub is_negative_hits: bool,
}

impl<'a> DecodedRequest<'a> {
    /// Decodes a message. Unknown fields are skipped, and of repeated singular fields the last one counts, as in
    /// protobuf.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let mut request = Self::default();
        let mut fields = FieldReader(bytes);
        while let Some((number, wire)) = fields.next()? {
            match number {
                1 => request.domain = fields.text(wire)?,
                2 => request.read_descriptor(FieldReader(fields.bytes(wire)?))?,
                3 => request.hits_addend = low_bits(fields.number(wire)?),
                _ => fields.skip(number, wire, MAX_DEPTH)?,
            }
        }
        Ok(request)
    }

    fn read_descriptor(&mut self, mut fields: FieldReader<'a>) -> Result<(), DecodeError> {
        let first = self.entries.len();
        let mut descriptor = RawDescriptor::default();
        while let Some((number, wire)) = fields.next()? {
            match number {
                1 => self.entries.push(entry(FieldReader(fields.bytes(wire)?))?),
                2 => {
                    descriptor.limit =
                        Some(limit(descriptor.limit.unwrap_or_default(), FieldReader(fields.bytes(wire)?))?);
                }
                3 => {
                    let before = descriptor.hits_addend.unwrap_or_default();
                    descriptor.hits_addend = Some(optional_u64(before, FieldReader(fields.bytes(wire)?))?);
                }
                4 => descriptor.is_negative_hits = fields.number(wire)? != 0,
                _ => fields.skip(number, wire, MAX_DEPTH - 1)?,
            }
        }
        self.count += 1;
        if self.count > MAX_DESCRIPTORS {
            self.entries.truncate(first);
            return Ok(());
        }
        descriptor.entries = first..self.entries.len();
        self.descriptors.push(descriptor);
        Ok(())
    }

    /// The number of descriptors, including those above the maximum.
    #[cfg(any(test, fuzzing, feature = "testing"))]
    pub fn count(&self) -> usize {
        self.count
    }

    /// The descriptors with their entries.
    pub fn raw_descriptors(&self) -> impl Iterator<Item = (&[Entry<'a>], &RawDescriptor)> {
        self.descriptors
            .iter()
            .map(|descriptor| (self.entries.get(descriptor.entries.clone()).unwrap_or_default(), descriptor))
    }

    /// The descriptors in the engine's types, or why the request is invalid.
    pub(crate) fn descriptors(&self) -> Result<Descriptors<'_>, CallError> {
        if self.domain.is_empty() {
            return Err(CallError::EmptyDomain);
        }
        if self.count == 0 {
            return Err(CallError::NoDescriptors);
        }
        if self.count > MAX_DESCRIPTORS {
            return Err(CallError::TooManyDescriptors { count: self.count });
        }
        let mut descriptors = SmallVec::new();
        for (index, (entries, descriptor)) in self.raw_descriptors().enumerate() {
            descriptors.push(Descriptor {
                entries,
                // A descriptor's own hits count even if they are 0; otherwise those of the request, where 0 means 1.
                cost: Cost::new(descriptor.hits_addend.unwrap_or_else(|| u64::from(self.hits_addend.max(1)))),
                op: if descriptor.is_negative_hits { Op::Refund } else { Op::Spend },
                limit: descriptor.limit.map(|limit| limit_override(index, limit)).transpose()?,
            });
        }
        Ok(descriptors)
    }

    /// The request as dynamic metadata in the reference's format, without unset fields.
    pub(super) fn metadata(&self) -> Map<String, Value> {
        let describe = |(entries, descriptor): (&[Entry<'_>], &RawDescriptor)| {
            let entries = entries.iter().map(|(key, value)| format!("{key}={value}"));
            let mut fields = Map::from_iter([("entries".to_owned(), entries.collect())]);
            if let Some((requests, unit)) = descriptor.limit {
                let unit = RateLimitUnit::try_from(unit).unwrap_or_default().as_str_name();
                fields.insert("limit".into(), format!("requests_per_unit:{requests} unit:{unit}").into());
            }
            if let Some(hits) = descriptor.hits_addend {
                fields.insert("hitsAddend".into(), hits.into());
            }
            Value::Object(fields)
        };
        let mut metadata = Map::new();
        metadata.insert("domain".into(), self.domain.into());
        metadata.insert("descriptors".into(), self.raw_descriptors().map(describe).collect());
        if self.hits_addend > 0 {
            metadata.insert("hitsAddend".into(), self.hits_addend.into());
        }
        metadata
    }
}

fn entry(mut fields: FieldReader<'_>) -> Result<Entry<'_>, DecodeError> {
    let (mut key, mut value) = ("", "");
    while let Some((number, wire)) = fields.next()? {
        match number {
            1 => key = fields.text(wire)?,
            2 => value = fields.text(wire)?,
            _ => fields.skip(number, wire, MAX_DEPTH - 2)?,
        }
    }
    Ok((key, value))
}

/// A repeated one merges with the first.
fn limit(before: (u32, i32), mut fields: FieldReader<'_>) -> Result<(u32, i32), DecodeError> {
    let (mut requests, mut unit) = before;
    while let Some((number, wire)) = fields.next()? {
        match number {
            1 => requests = low_bits(fields.number(wire)?),
            2 => unit = low_bits(fields.number(wire)?).cast_signed(),
            _ => fields.skip(number, wire, MAX_DEPTH - 2)?,
        }
    }
    Ok((requests, unit))
}

/// An optional number is a message with one field.
fn optional_u64(before: u64, mut fields: FieldReader<'_>) -> Result<u64, DecodeError> {
    let mut value = before;
    while let Some((number, wire)) = fields.next()? {
        match number {
            1 => value = fields.number(wire)?,
            _ => fields.skip(number, wire, MAX_DEPTH - 2)?,
        }
    }
    Ok(value)
}

/// Protobuf truncates a number that is too long for its field.
#[expect(clippy::cast_possible_truncation, reason = "this is the truncation")]
fn low_bits(number: u64) -> u32 {
    number as u32
}

fn limit_override(index: usize, (requests, unit): (u32, i32)) -> Result<Limit, CallError> {
    let period = match RateLimitUnit::try_from(unit) {
        Ok(RateLimitUnit::Second) => Period::SECOND,
        Ok(RateLimitUnit::Minute) => Period::MINUTE,
        Ok(RateLimitUnit::Hour) => Period::HOUR,
        Ok(RateLimitUnit::Day) => Period::DAY,
        Ok(RateLimitUnit::Month) => Period::MONTH,
        Ok(RateLimitUnit::Year) => Period::YEAR,
        Ok(RateLimitUnit::Unknown) | Err(_) => return Err(CallError::UnknownUnit { index, unit }),
    };
    Ok(Limit::fixed_window(requests, period))
}
