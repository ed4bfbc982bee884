//! API key file, one key per line: `name:sha256:HEX`, or `name:sha256:HEX:domain,domain`. A name may appear
//! twice while a key is being rotated.

use super::file::{Contents, Fault};
use super::{AccessGrant, SecretDigest, is_name};
use std::collections::HashMap;
use std::sync::Arc;

/// Upper bounds; a file beyond them is not one that people maintain by hand.
const MOST_KEYS: usize = 10_000;
const MOST_DOMAINS: usize = 256;
const KIND: &str = "sha256";

/// API keys by digest. The table's hash is seeded per process, so lookup times reveal nothing about the digests.
#[derive(Debug, Default)]
pub struct ApiKeyTable(HashMap<SecretDigest, Arc<AccessGrant>>);

impl ApiKeyTable {
    /// The grant of this key; `None` if the key is unknown.
    pub fn grant(&self, key: &[u8]) -> Option<Arc<AccessGrant>> {
        self.0.get(&SecretDigest::of(key)?).map(Arc::clone)
    }

    fn add(&mut self, line: &str) -> Result<(), &'static str> {
        let mut parts = line.splitn(4, ':');
        let name = parts.next().filter(|name| is_name(name));
        let name = name.ok_or("does not begin with a name of letters, digits, `.`, `_` and `-`")?;
        if parts.next() != Some(KIND) {
            return Err("has no `:sha256:` after its name; a key itself does not belong here");
        }
        let digest = parts.next().and_then(SecretDigest::from_hex);
        let digest = digest.ok_or("has no digest of 64 hexadecimal digits after `sha256:`")?;
        let list = parts.next();
        let items = list.into_iter().flat_map(|list| list.split(','));
        if items.clone().count() > MOST_DOMAINS {
            return Err("has more than 256 domains; `*` is all of them");
        }
        if items.clone().any(|item| item.trim().is_empty()) {
            return Err("names an empty domain; leave the last `:` out for all domains");
        }
        match self.0.insert(digest, Arc::new(AccessGrant::new(name, list))) {
            None => Ok(()),
            Some(_) => Err("is the same key as one before it; each caller needs its own"),
        }
    }
}

impl Contents for ApiKeyTable {
    const SETTING: &'static str = "security.api_keys_file";
    const WHAT: &'static str = "API keys";

    fn parse(text: &str) -> Result<Self, Fault> {
        let mut keys = Self::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            keys.add(line).map_err(|what| Fault::Line { line: index + 1, what })?;
            if keys.0.len() > MOST_KEYS {
                return Err(Fault::TooMany { most: MOST_KEYS });
            }
        }
        Ok(keys)
    }

    fn count(&self) -> usize {
        self.0.len()
    }
}

/// The line for a key that opens `domains`.
pub fn format_key_line(name: &str, digest: SecretDigest, domains: &[String]) -> String {
    let list = if domains.is_empty() { String::new() } else { format!(":{}", domains.join(",")) };
    format!("{name}:{KIND}:{}{list}", digest.to_hex())
}
