//! Counter references: what an interner entry stands for, and its full encoding.

use crate::frame::wire::{Unreadable, WireReader, WireWriter};
use hivemind_core::store::Key;
use hivemind_core::{Limit, Period, Rate};
use siphasher::sip::SipHasher13;
use std::hash::{Hash, Hasher};
use std::time::Duration;

/// A counter and its limit, as the sender has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CounterRef {
    pub key: Key,
    pub limit: Limit,
}

impl CounterRef {
    pub(super) fn limit_hash(&self) -> u32 {
        let mut hasher = SipHasher13::new();
        self.limit.hash(&mut hasher);
        let hash = hasher.finish();
        u32::try_from(hash >> 32).unwrap_or(0)
    }

    pub(crate) fn write(&self, writer: &mut WireWriter) {
        let (high, low) = self.key.bits();
        writer.fixed(high);
        writer.fixed(low);
        let nanos = u64::try_from(self.limit.period().length().as_nanos()).unwrap_or(u64::MAX);
        let whole = nanos.is_multiple_of(1_000_000_000);
        let kind = match self.limit {
            Limit::TokenBucket(_) => 0,
            Limit::SlidingWindow(_) => 2,
            _ => 1,
        };
        writer.byte(kind << 1 | u8::from(whole));
        writer.number(u64::from(self.limit.requests()));
        writer.number(if whole { nanos / 1_000_000_000 } else { nanos });
        if kind == 0 {
            writer.number(u64::from(self.limit.burst()));
        }
    }

    pub(crate) fn read(reader: &mut WireReader<'_>) -> Result<Self, Unreadable> {
        let key = Key::from_bits(reader.fixed()?, reader.fixed()?);
        let kind = reader.byte()?;
        let requests = u32::try_from(reader.number()?).map_err(|_| Unreadable)?;
        let unit = if kind & 1 == 1 { 1_000_000_000 } else { 1 };
        let nanos = reader.number()?.checked_mul(unit).ok_or(Unreadable)?;
        let period = Period::new(Duration::from_nanos(nanos)).map_err(|_| Unreadable)?;
        let limit = match kind >> 1 {
            0 => {
                let burst = u32::try_from(reader.number()?).map_err(|_| Unreadable)?;
                let rate = Rate::new(requests, period).map_err(|_| Unreadable)?;
                Limit::token_bucket(rate, burst).map_err(|_| Unreadable)?
            }
            1 => Limit::fixed_window(requests, period),
            2 => Limit::sliding_window(requests, period),
            _ => return Err(Unreadable),
        };
        Ok(Self { key, limit })
    }
}

/// A key in four-byte words, without padding next to other fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bits([u32; 4]);

impl Bits {
    #[expect(clippy::cast_possible_truncation, reason = "each half of a half is 32 bits wide")]
    pub(super) fn of(key: Key) -> Self {
        let (high, low) = key.bits();
        Self([(high >> 32) as u32, high as u32, (low >> 32) as u32, low as u32])
    }

    pub(super) fn key(self) -> Key {
        let Self([a, b, c, d]) = self;
        Key::from_bits(u64::from(a) << 32 | u64::from(b), u64::from(c) << 32 | u64::from(d))
    }
}
