//! Rule values by hash: credentials of requests are only recorded as hashes, but a rule for one client contains the
//! value. Hashing the rule's value finds the requests that it matched.

use hivemind_core::{Entry, Rules};
use hivemind_telemetry::{is_hash, redact};
use std::collections::{HashMap, HashSet};

/// The values of rules, by their recorded form.
#[derive(Default)]
pub(super) struct RuleValues {
    /// By key, then by hash.
    values: HashMap<String, HashMap<String, String>>,
    /// Keys with a wildcard pattern in a rule; a hash does not show whether the value matched it.
    formed: HashSet<String>,
}

impl RuleValues {
    pub(super) fn of<'r>(rules: impl IntoIterator<Item = &'r Rules>) -> Self {
        let mut named = Self::default();
        let matchers = rules.into_iter().flat_map(Rules::declarations).flat_map(|(_, path, _)| path);
        for matcher in matchers {
            let Some(value) = matcher.value() else { continue };
            // A lone `*` matches every value, and every hash.
            if value.contains('*') && value.bytes().any(|byte| byte != b'*') {
                named.formed.insert(matcher.key().to_owned());
            }
            if let (hash, true) = redact(matcher.key(), value) {
                let of_key = named.values.entry(matcher.key().to_owned()).or_default();
                of_key.insert(hash.into_owned(), value.to_owned());
            }
        }
        named
    }

    /// The entry with its original value, if a rule contains it.
    pub(super) fn entry<'e>(&'e self, (key, kept): Entry<'e>) -> Entry<'e> {
        (key, self.value(key, kept).unwrap_or(kept))
    }

    /// Whether a rule may match this entry, but not its recorded hash.
    pub(super) fn may_miss(&self, (key, kept): Entry<'_>) -> bool {
        is_hash(kept) && self.formed.contains(key) && self.value(key, kept).is_none()
    }

    fn value(&self, key: &str, kept: &str) -> Option<&str> {
        self.values.get(key)?.get(kept).map(String::as_str)
    }
}
