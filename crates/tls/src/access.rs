//! Access control: API keys of callers and tokens of operators, read from files that are reloaded on change.
//!
//! Only digests are kept, so neither a core dump nor a log can leak a secret. A presented secret is compared
//! by its digest, in constant time.

mod access_grant;
mod api_key_table;
mod digest;
mod file;
#[cfg(test)]
mod tests;
mod tokens;

pub use access_grant::{ADMIN, AccessGrant, is_name};
pub use api_key_table::{ApiKeyTable, format_key_line};
pub use digest::SecretDigest;
pub use file::{AccessError, SecretFile};
pub use tokens::Tokens;

use crate::security::Security;
use std::sync::Arc;

/// The metadata key, or HTTP header, that carries an API key.
pub const KEY_HEADER: http::HeaderName = http::HeaderName::from_static("x-api-key");

/// The API keys of callers.
pub type ApiKeys = SecretFile<ApiKeyTable>;

/// All credentials that grant access.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// API keys of callers; `None`: calls need no key.
    pub keys: Option<Arc<ApiKeys>>,
    /// Tokens of operators.
    pub tokens: Option<Arc<SecretFile<Tokens>>>,
}

impl Access {
    /// Reads the files that the settings name.
    ///
    /// # Errors
    /// If one of them cannot be used: the server does not start with half of its access control.
    pub fn open(security: &Security) -> Result<Self, AccessError> {
        let keys = security.api_keys_file.as_deref().map(ApiKeys::open).transpose()?;
        let tokens = security.token_file.as_deref().map(SecretFile::open).transpose()?;
        Ok(Self { keys: keys.map(Arc::new), tokens: tokens.map(Arc::new) })
    }

    /// Whether the admin port requires credentials.
    pub const fn is_asked_for(&self) -> bool {
        self.keys.is_some() || self.tokens.is_some()
    }

    /// Generation numbers of keys and tokens. Long-lived sessions compare them to notice a change.
    pub fn generations(&self) -> [u64; 2] {
        let of_keys = self.keys.as_ref().map(|keys| keys.generation());
        let of_tokens = self.tokens.as_ref().map(|tokens| tokens.generation());
        [of_keys, of_tokens].map(Option::unwrap_or_default)
    }

    /// Whether `sent` is one of the operators' tokens.
    pub fn is_token(&self, sent: &[u8]) -> bool {
        self.tokens.as_ref().is_some_and(|tokens| tokens.active().has(sent))
    }
}
