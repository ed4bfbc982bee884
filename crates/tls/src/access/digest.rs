//! Digests of secrets: what is stored in place of an API key or a token.

use sha2::{Digest as _, Sha256};
use std::fmt;
use std::hash::{Hash, Hasher};
use subtle::ConstantTimeEq;

/// Longest accepted key or token; anything longer is rejected before it is hashed.
const LONGEST: usize = 256;

/// SHA-256 of a secret. API keys are random and long, so a slow hash is not needed: no dictionary covers them.
#[derive(Clone, Copy, Eq)]
pub struct SecretDigest([u8; 32]);

impl SecretDigest {
    /// `None` if `secret` is longer than any accepted secret.
    pub fn of(secret: &[u8]) -> Option<Self> {
        (secret.len() <= LONGEST).then(|| Self(Sha256::digest(secret).into()))
    }

    /// Reads 64 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
        let mut digest = [0; 32];
        if pairs.len() != digest.len() {
            return None;
        }
        for (byte, [high, low]) in digest.iter_mut().zip(pairs) {
            let value = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
            *byte = value(*high)? << 4 | value(*low)?;
        }
        Some(Self(digest))
    }

    pub fn to_hex(self) -> String {
        let digits = self.0.iter().flat_map(|byte| [byte >> 4, byte & 0xF]);
        digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect()
    }
}

impl PartialEq for SecretDigest {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl Hash for SecretDigest {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0);
    }
}

/// Prints no digits: a weak secret could be guessed from its digest.
impl fmt::Debug for SecretDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(not shown)")
    }
}
