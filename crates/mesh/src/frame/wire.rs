//! Primitives of the wire format. Numbers have seven bits per byte, lowest first, so that small numbers are
//! short. A reader never panics and never reads past its end; invalid input is [`Unreadable`].

/// Bytes that are not a valid frame, or exceed its bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

/// A buffer that a frame is written to.
#[derive(Clone, Debug, Default)]
pub struct WireWriter(pub Vec<u8>);

impl WireWriter {
    pub fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.0.push((number & 0x7f) as u8);
    }

    /// A signed number: 0, -1, 1, -2 and so on become 0, 1, 2, 3 (zigzag).
    pub fn signed(&mut self, number: i64) {
        self.number((number << 1 ^ number >> 63).cast_unsigned());
    }

    pub fn fixed(&mut self, number: u64) {
        self.0.extend_from_slice(&number.to_le_bytes());
    }

    pub fn wide(&mut self, number: u128) {
        // Votes of few members are small numbers.
        self.number(u64::try_from(number & u128::from(u64::MAX)).unwrap_or(0));
        self.number(u64::try_from(number >> 64).unwrap_or(0));
    }

    pub fn text(&mut self, text: &str) {
        self.number(text.len() as u64);
        self.0.extend_from_slice(text.as_bytes());
    }
}

/// Bytes being read.
#[derive(Clone, Copy, Debug)]
pub struct WireReader<'a>(pub &'a [u8]);

impl<'a> WireReader<'a> {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> Result<u8, Unreadable> {
        let (first, rest) = self.0.split_first().ok_or(Unreadable)?;
        self.0 = rest;
        Ok(*first)
    }

    pub fn number(&mut self) -> Result<u64, Unreadable> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(Unreadable);
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(Unreadable)
    }

    /// A number that is at most `most`.
    pub fn at_most(&mut self, most: u64) -> Result<u64, Unreadable> {
        self.number().and_then(|number| if number <= most { Ok(number) } else { Err(Unreadable) })
    }

    pub fn count(&mut self, most: usize) -> Result<usize, Unreadable> {
        usize::try_from(self.at_most(most as u64)?).map_err(|_| Unreadable)
    }

    pub fn signed(&mut self) -> Result<i64, Unreadable> {
        let number = self.number()?;
        Ok((number >> 1).cast_signed() ^ -((number & 1).cast_signed()))
    }

    pub fn fixed(&mut self) -> Result<u64, Unreadable> {
        let (eight, rest) = self.0.split_first_chunk::<8>().ok_or(Unreadable)?;
        self.0 = rest;
        Ok(u64::from_le_bytes(*eight))
    }

    pub fn wide(&mut self) -> Result<u128, Unreadable> {
        let (low, high) = (self.number()?, self.number()?);
        Ok(u128::from(high) << 64 | u128::from(low))
    }

    pub fn text(&mut self, most: usize) -> Result<&'a str, Unreadable> {
        let length = self.count(most)?;
        let (text, rest) = self.0.split_at_checked(length).ok_or(Unreadable)?;
        self.0 = rest;
        std::str::from_utf8(text).map_err(|_| Unreadable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn written_values_are_read_back(number in any::<u64>(), signed in any::<i64>(), wide in any::<u128>(), text in ".{0,20}") {
            let mut writer = WireWriter::default();
            writer.number(number);
            writer.signed(signed);
            writer.wide(wide);
            writer.text(&text);
            let mut reader = WireReader(&writer.0);
            prop_assert_eq!(reader.number(), Ok(number));
            prop_assert_eq!(reader.signed(), Ok(signed));
            prop_assert_eq!(reader.wide(), Ok(wide));
            prop_assert_eq!(reader.text(100), Ok(text.as_str()));
            prop_assert!(reader.is_empty());
        }
    }

    #[test]
    fn oversized_number_is_rejected() {
        assert_eq!(WireReader(&[0xff; 11]).number(), Err(Unreadable));
        assert_eq!(
            WireReader(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]).number(),
            Err(Unreadable)
        );
        assert_eq!(WireReader(&[0x80]).number(), Err(Unreadable));
    }
}
