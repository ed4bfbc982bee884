//! Operator token file, one token per line. Two tokens are valid at once while one is being rotated.

use super::SecretDigest;
use super::file::{Contents, Fault};

/// A shorter token could be guessed.
const SHORTEST: usize = 16;
/// Upper bound; a file beyond it is not a token file.
const MOST: usize = 100;

#[derive(Debug)]
pub struct Tokens(Vec<SecretDigest>);

impl Tokens {
    /// Whether `sent` is one of the tokens. Compares with all of them, so the time does not depend on which
    /// one matches.
    pub fn has(&self, sent: &[u8]) -> bool {
        let Some(sent) = SecretDigest::of(sent) else { return false };
        self.0.iter().filter(|token| **token == sent).count() > 0
    }
}

impl Contents for Tokens {
    const SETTING: &'static str = "security.admin.token_file";
    const WHAT: &'static str = "admin tokens";

    fn parse(text: &str) -> Result<Self, Fault> {
        let mut tokens = Vec::new();
        for (index, token) in text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty()) {
            let what =
                "is not a token of 16 to 256 visible characters; generate one with `openssl rand -hex 32`";
            let is_token = token.len() >= SHORTEST && token.bytes().all(|byte| byte.is_ascii_graphic());
            let digest = SecretDigest::of(token.as_bytes()).filter(|_| is_token);
            tokens.push(digest.ok_or(Fault::Line { line: index + 1, what })?);
            if tokens.len() > MOST {
                return Err(Fault::TooMany { most: MOST });
            }
        }
        Ok(Self(tokens))
    }

    fn count(&self) -> usize {
        self.0.len()
    }
}
