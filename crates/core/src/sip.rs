//! SipHash-1-3 for messages of whole words except at their end, with a 128-bit or 64-bit
//! result. The `siphasher` crate computes the same (the tests compare with it), but keeps
//! a buffer for odd bytes, which takes a third of a decision's time when every word is
//! whole. Reasons against a faster hash: docs/decisions/006.

/// A hash in progress.
#[derive(Clone, Copy)]
pub(crate) struct Sip13 {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
    words: u64,
}

impl Sip13 {
    /// Starts a 128-bit hash.
    #[inline]
    pub(crate) const fn new(key: [u8; 16]) -> Self {
        let Self { v0, v1, v2, v3, words } = Self::short(key);
        Self { v0, v1: v1 ^ 0xee, v2, v3, words }
    }

    /// Starts a 64-bit hash.
    #[inline]
    pub(crate) const fn short(key: [u8; 16]) -> Self {
        let key = u128::from_le_bytes(key);
        #[expect(clippy::cast_possible_truncation, reason = "each half is 64 bits wide")]
        let (low, high) = (key as u64, (key >> 64) as u64);
        Self {
            v0: low ^ 0x736f_6d65_7073_6575,
            v1: high ^ 0x646f_7261_6e64_6f6d,
            v2: low ^ 0x6c79_6765_6e65_7261,
            v3: high ^ 0x7465_6462_7974_6573,
            words: 0,
        }
    }

    /// Adds eight bytes.
    #[inline]
    pub(crate) const fn write(&mut self, word: u64) {
        self.v3 ^= word;
        self.round();
        self.v0 ^= word;
        self.words += 1;
    }

    /// Adds these bytes, padded with zeros to whole words.
    #[inline]
    pub(crate) fn write_padded(&mut self, bytes: &[u8]) {
        self.write_whole_words(bytes);
        if !bytes.len().is_multiple_of(8) {
            self.write(tail(bytes));
        }
    }

    /// Adds these bytes and returns the hash, for a hash started by [`Sip13::new`].
    #[inline]
    pub(crate) fn finish_after(mut self, bytes: &[u8]) -> (u64, u64) {
        self.write_end(bytes);
        self.v2 ^= 0xee;
        let first = self.finish_half();
        self.v1 ^= 0xdd;
        (first, self.finish_half())
    }

    /// Adds these bytes and returns the hash, for a hash started by [`Sip13::short`].
    #[inline]
    pub(crate) fn finish_short_after(mut self, bytes: &[u8]) -> u64 {
        self.write_end(bytes);
        self.v2 ^= 0xff;
        self.finish_half()
    }

    #[expect(
        clippy::inline_always,
        reason = "the hash's state stays in registers; a call passes it through memory"
    )]
    #[inline(always)]
    fn write_whole_words(&mut self, bytes: &[u8]) {
        for word in bytes.as_chunks::<8>().0 {
            self.write(u64::from_le_bytes(*word));
        }
    }

    /// The last word has room for seven bytes, and for the lowest byte of the message's length.
    #[inline]
    fn write_end(&mut self, bytes: &[u8]) {
        let before = self.words * 8;
        self.write_whole_words(bytes);
        self.write((before + bytes.len() as u64) << 56 | tail(bytes));
    }

    #[inline]
    const fn finish_half(&mut self) -> u64 {
        self.round();
        self.round();
        self.round();
        self.v0 ^ self.v1 ^ self.v2 ^ self.v3
    }

    #[inline]
    const fn round(&mut self) {
        self.v0 = self.v0.wrapping_add(self.v1);
        self.v2 = self.v2.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(13) ^ self.v0;
        self.v3 = self.v3.rotate_left(16) ^ self.v2;
        self.v0 = self.v0.rotate_left(32);
        self.v2 = self.v2.wrapping_add(self.v1);
        self.v0 = self.v0.wrapping_add(self.v3);
        self.v1 = self.v1.rotate_left(17) ^ self.v2;
        self.v3 = self.v3.rotate_left(21) ^ self.v0;
        self.v2 = self.v2.rotate_left(32);
    }
}

/// The bytes past the last whole word, at most seven. Read by overlapping loads: a loop
/// over single bytes costs as much as two rounds.
#[inline]
fn tail(bytes: &[u8]) -> u64 {
    let past = bytes.len() % 8;
    if past == 0 {
        return 0;
    }
    if let Some(word) = bytes.last_chunk::<8>() {
        return u64::from_le_bytes(*word) >> (8 * (8 - past));
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let last = u64::from(u32::from_le_bytes(*last)) << (8 * (past - 4));
        return u64::from(u32::from_le_bytes(*first)) | last;
    }
    bytes.iter().rfold(0, |word, byte| word << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::Sip13;
    use siphasher::{sip, sip128};

    const KEY: [u8; 16] = *b"sixteen bytes ok";

    #[test]
    fn sip_hash_equals_siphasher_crate() {
        let bytes: Vec<u8> = (0..=255_u8).chain(0..=99).map(|byte| byte.wrapping_mul(167) ^ 0x5A).collect();
        for length in 0..bytes.len() {
            let message = &bytes[..length];
            let short = Sip13::short(KEY).finish_short_after(message);
            assert_eq!(short, sip::SipHasher13::new_with_key(&KEY).hash(message), "{length} bytes");
            let long = sip128::SipHasher13::new_with_key(&KEY).hash(message).as_u64();
            assert_eq!(Sip13::new(KEY).finish_after(message), long, "{length} bytes");
            // The same message in two parts, of which the first is whole words.
            let (first, last) = message.split_at(length / 16 * 8);
            let mut begun = Sip13::new(KEY);
            begun.write_padded(first);
            assert_eq!(begun.finish_after(last), long, "{length} bytes in two parts");
        }
    }

    #[test]
    fn padding_fills_last_word_with_zeros() {
        for (padded, message) in [("", ""), ("abc", "abc\0\0\0\0\0"), ("12345678", "12345678")] {
            let mut begun = Sip13::new(KEY);
            begun.write_padded(padded.as_bytes());
            assert_eq!(
                begun.finish_after(b"!"),
                Sip13::new(KEY).finish_after(format!("{message}!").as_bytes())
            );
        }
    }
}
