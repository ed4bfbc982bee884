//! What rules name that is remembered as a hash only. Nothing that opens something is kept of a request; a rule for one client
//! has it in its file, though, and whoever hashes that finds the requests that it met.

use hivemind_core::{Entry, Rules};
use hivemind_telemetry::{is_hash, kept};
use std::collections::{HashMap, HashSet};

/// The values of rules, by what is kept of them.
#[derive(Default)]
pub(super) struct Named {
    /// By key, and then by hash.
    values: HashMap<String, HashMap<String, String>>,
    /// Keys of which a rule asks for values of a form. No hash tells whether a value had it.
    formed: HashSet<String>,
}

impl Named {
    pub(super) fn of<'r>(rules: impl IntoIterator<Item = &'r Rules>) -> Self {
        let mut named = Self::default();
        let matchers = rules.into_iter().flat_map(Rules::declarations).flat_map(|(_, path, _)| path);
        for matcher in matchers {
            let Some(value) = matcher.value() else { continue };
            // Every value has the form of a `*` alone, and so has every hash.
            if value.contains('*') && value.bytes().any(|byte| byte != b'*') {
                named.formed.insert(matcher.key().to_owned());
            }
            if let (hash, true) = kept(matcher.key(), value) {
                let of_key = named.values.entry(matcher.key().to_owned()).or_default();
                of_key.insert(hash.into_owned(), value.to_owned());
            }
        }
        named
    }

    /// An entry as the rules name it, where it is remembered.
    pub(super) fn entry<'e>(&'e self, (key, kept): Entry<'e>) -> Entry<'e> {
        (key, self.value(key, kept).unwrap_or(kept))
    }

    /// Whether rules may meet this entry that do not meet what is remembered of it.
    pub(super) fn may_miss(&self, (key, kept): Entry<'_>) -> bool {
        is_hash(kept) && self.formed.contains(key) && self.value(key, kept).is_none()
    }

    fn value(&self, key: &str, kept: &str) -> Option<&str> {
        self.values.get(key)?.get(kept).map(String::as_str)
    }
}
