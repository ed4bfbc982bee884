//! Protobuf field reader without copies or allocations. It accepts exactly what prost accepts (checked in
//! `fuzzing.rs`), so a known field with a wrong wire type is an error here too.

/// Bytes that are not a valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError;

/// The wire type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WireType {
    Varint,
    SixtyFourBit,
    Delimited,
    GroupStart,
    GroupEnd,
    ThirtyTwoBit,
}

/// Maximum nesting of messages and groups, as in prost.
pub(super) const MAX_DEPTH: u32 = 100;

/// A message that is read from the front.
#[derive(Clone, Copy, Debug)]
pub(super) struct FieldReader<'a>(pub(super) &'a [u8]);

impl<'a> FieldReader<'a> {
    /// The number and wire type of the next field; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<(u32, WireType)>, DecodeError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = u32::try_from(self.varint()?).map_err(|_| DecodeError)?;
        let wire = match tag & 7 {
            0 => WireType::Varint,
            1 => WireType::SixtyFourBit,
            2 => WireType::Delimited,
            3 => WireType::GroupStart,
            4 => WireType::GroupEnd,
            5 => WireType::ThirtyTwoBit,
            _ => return Err(DecodeError),
        };
        let number = tag >> 3;
        if number == 0 { Err(DecodeError) } else { Ok(Some((number, wire))) }
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, DecodeError> {
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
    fn long_varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0;
        for (index, byte) in self.0.iter().take(10).enumerate() {
            // The tenth byte has room for one bit.
            if index == 9 && *byte > 1 {
                return Err(DecodeError);
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if *byte < 0x80 {
                self.0 = self.0.get(index + 1..).unwrap_or_default();
                return Ok(value);
            }
        }
        Err(DecodeError)
    }

    /// Reads an integer.
    #[inline]
    pub(super) fn number(&mut self, wire: WireType) -> Result<u64, DecodeError> {
        if wire == WireType::Varint { self.varint() } else { Err(DecodeError) }
    }

    /// Reads a nested message, or bytes.
    #[inline]
    pub(super) fn bytes(&mut self, wire: WireType) -> Result<&'a [u8], DecodeError> {
        if wire == WireType::Delimited { self.delimited() } else { Err(DecodeError) }
    }

    fn delimited(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = usize::try_from(self.varint()?).map_err(|_| DecodeError)?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(DecodeError)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Reads a string, which must be UTF-8.
    #[inline]
    pub(super) fn text(&mut self, wire: WireType) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.bytes(wire)?).map_err(|_| DecodeError)
    }

    /// Skips an unknown field; groups may be nested up to `max_depth`.
    #[cold]
    pub(super) fn skip(&mut self, number: u32, wire: WireType, max_depth: u32) -> Result<(), DecodeError> {
        let Some(inner_depth) = max_depth.checked_sub(1) else { return Err(DecodeError) };
        match wire {
            WireType::Varint => self.varint().map(drop),
            WireType::SixtyFourBit => self.fixed(8),
            WireType::ThirtyTwoBit => self.fixed(4),
            WireType::Delimited => self.delimited().map(drop),
            WireType::GroupEnd => Err(DecodeError),
            WireType::GroupStart => loop {
                match self.next()?.ok_or(DecodeError)? {
                    (group, WireType::GroupEnd) if group == number => return Ok(()),
                    (_, WireType::GroupEnd) => return Err(DecodeError),
                    (inner, wire) => self.skip(inner, wire, inner_depth)?,
                }
            },
        }
    }

    fn fixed(&mut self, length: usize) -> Result<(), DecodeError> {
        let (_, rest) = self.0.split_at_checked(length).ok_or(DecodeError)?;
        self.0 = rest;
        Ok(())
    }
}
