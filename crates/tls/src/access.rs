//! Who may ask: callers with API keys, operators with a token. Their files are followed, and what is kept of
//! them are digests: neither a core dump nor a log can give away what was never there. What is sent is compared
//! by its digest, in a time that does not depend on it.

mod digest;
mod file;
mod grant;
mod key_file;
#[cfg(test)]
mod tests;
mod tokens;

pub use digest::Digest;
pub use file::{AccessError, SecretFile};
pub use grant::{ADMIN, Grant, is_name};
pub use key_file::{Keys, line};
pub use tokens::Tokens;

use crate::security::Security;
use std::sync::Arc;

/// The metadata, or the header, that a key comes in.
pub const KEY_HEADER: http::HeaderName = http::HeaderName::from_static("x-api-key");

/// The keys that callers have.
pub type ApiKeys = SecretFile<Keys>;

/// All that opens something.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// Of callers; none: everybody may call.
    pub keys: Option<Arc<ApiKeys>>,
    /// Of operators.
    pub tokens: Option<Arc<SecretFile<Tokens>>>,
}

impl Access {
    /// Reads the files that the settings name.
    ///
    /// # Errors
    /// If one of them cannot be used: nothing is served half open.
    pub fn open(security: &Security) -> Result<Self, AccessError> {
        let keys = security.api_keys_file.as_deref().map(ApiKeys::open).transpose()?;
        let tokens = security.token_file.as_deref().map(SecretFile::open).transpose()?;
        Ok(Self { keys: keys.map(Arc::new), tokens: tokens.map(Arc::new) })
    }

    /// Whether the admin port asks who is there.
    pub const fn is_asked_for(&self) -> bool {
        self.keys.is_some() || self.tokens.is_some()
    }

    /// Other numbers for other keys and tokens: whoever was let in by them and stays looks at these.
    pub fn generations(&self) -> [u64; 2] {
        let of_keys = self.keys.as_ref().map(|keys| keys.generation());
        let of_tokens = self.tokens.as_ref().map(|tokens| tokens.generation());
        [of_keys, of_tokens].map(Option::unwrap_or_default)
    }

    /// Whether this is one of the operators' tokens.
    pub fn is_token(&self, sent: &[u8]) -> bool {
        self.tokens.as_ref().is_some_and(|tokens| tokens.in_force().has(sent))
    }
}
