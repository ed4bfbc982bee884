//! Protobuf field reader without copies or allocations. It accepts exactly what prost accepts (checked in
//! `fuzzing.rs`), so a known field with a wrong wire type is an error here too.

/// Bytes that are not a valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// The wire type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire {
    Varint,
    SixtyFourBit,
    Delimited,
    GroupStart,
    GroupEnd,
    ThirtyTwoBit,
}

/// Maximum nesting of messages and groups, as in prost.
pub(super) const DEEPEST: u32 = 100;

/// A message that is read from the front.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(pub(super) &'a [u8]);

impl<'a> Fields<'a> {
    /// The number and wire type of the next field; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Wire)>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = u32::try_from(self.varint()?).map_err(|_| Malformed)?;
        let wire = match tag & 7 {
            0 => Wire::Varint,
            1 => Wire::SixtyFourBit,
            2 => Wire::Delimited,
            3 => Wire::GroupStart,
            4 => Wire::GroupEnd,
            5 => Wire::ThirtyTwoBit,
            _ => return Err(Malformed),
        };
        let number = tag >> 3;
        if number == 0 { Err(Malformed) } else { Ok(Some((number, wire))) }
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, Malformed> {
        match self.0 {
            // Nearly every tag, length and number of a request is one byte.
            [byte, rest @ ..] if *byte < 0x80 => {
                self.0 = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    #[cold]
    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for (index, byte) in self.0.iter().take(10).enumerate() {
            // The tenth byte has room for one bit.
            if index == 9 && *byte > 1 {
                return Err(Malformed);
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if *byte < 0x80 {
                self.0 = self.0.get(index + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    /// Reads an integer.
    #[inline]
    pub(super) fn number(&mut self, wire: Wire) -> Result<u64, Malformed> {
        if wire == Wire::Varint { self.varint() } else { Err(Malformed) }
    }

    /// Reads a nested message, or bytes.
    #[inline]
    pub(super) fn bytes(&mut self, wire: Wire) -> Result<&'a [u8], Malformed> {
        if wire == Wire::Delimited { self.delimited() } else { Err(Malformed) }
    }

    fn delimited(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Reads a string, which must be UTF-8.
    #[inline]
    pub(super) fn text(&mut self, wire: Wire) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes(wire)?).map_err(|_| Malformed)
    }

    /// Skips an unknown field; groups may be nested up to `deepest`.
    #[cold]
    pub(super) fn skip(&mut self, number: u32, wire: Wire, deepest: u32) -> Result<(), Malformed> {
        let Some(deeper) = deepest.checked_sub(1) else { return Err(Malformed) };
        match wire {
            Wire::Varint => self.varint().map(drop),
            Wire::SixtyFourBit => self.fixed(8),
            Wire::ThirtyTwoBit => self.fixed(4),
            Wire::Delimited => self.delimited().map(drop),
            Wire::GroupEnd => Err(Malformed),
            Wire::GroupStart => loop {
                match self.next()?.ok_or(Malformed)? {
                    (ended, Wire::GroupEnd) if ended == number => return Ok(()),
                    (_, Wire::GroupEnd) => return Err(Malformed),
                    (inner, wire) => self.skip(inner, wire, deeper)?,
                }
            },
        }
    }

    fn fixed(&mut self, length: usize) -> Result<(), Malformed> {
        let (_, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(())
    }
}
