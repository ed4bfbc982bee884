//! Hashes of all values of a configuration, by key, to name the keys that changed. Values themselves are not kept,
//! because some are secrets.

use super::document::{SpannedValue, Value};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Hash of each value, by the path of its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValueHashes(BTreeMap<String, u64>);

impl ValueHashes {
    pub fn of(root: &SpannedValue) -> Self {
        let mut hashes = Self::default();
        hashes.add("", root);
        hashes
    }

    fn add(&mut self, path: &str, node: &SpannedValue) {
        match &node.value {
            Value::Null => {}
            Value::Map(pairs) => {
                for (key, value) in pairs {
                    let Value::Scalar { text, .. } = &key.value else { continue };
                    let path = if path.is_empty() { text.to_string() } else { format!("{path}.{text}") };
                    self.add(&path, value);
                }
            }
            Value::Scalar { .. } | Value::List(_) => {
                let mut hasher = DefaultHasher::new();
                node.to_json().to_string().hash(&mut hasher);
                self.0.insert(path.to_owned(), hasher.finish());
            }
        }
    }

    /// Whether this key, or one below it, has a value.
    pub fn has(&self, key: &str) -> bool {
        self.0.keys().any(|path| is_in(path, key))
    }

    /// Returns the keys whose values differ in `now`, without `but` and the keys below them.
    pub fn changed(&self, now: &Self, but: &[&str]) -> Vec<String> {
        let mut keys: Vec<&String> = self.0.keys().chain(now.0.keys()).collect();
        keys.sort_unstable();
        keys.dedup();
        let is_left_out = |path: &str| but.iter().any(|key| is_in(path, key));
        keys.retain(|key| self.0.get(*key) != now.0.get(*key) && !is_left_out(key));
        keys.into_iter().cloned().collect()
    }
}

/// Whether a path is this key or below it.
fn is_in(path: &str, key: &str) -> bool {
    path.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::ValueHashes;
    use crate::document;
    use crate::problem::SourceText;
    use std::sync::Arc;

    fn hashes(text: &str) -> ValueHashes {
        ValueHashes::of(
            &document::parse(&Arc::new(SourceText { name: String::new(), text: text.to_owned() })).unwrap(),
        )
    }

    #[test]
    fn changed_keys_are_named_except_excluded_ones() {
        let before = hashes(
            "{server: {host: ::1, grpc_port: 1}, mesh: {peers: [a]}, gateway: {services: [1], listen: a}}",
        );
        let now = hashes(
            "{server: {host: ::1, admin_port: 2}, mesh: {peers: [a, b]}, gateway: {services: [2], listen: b}}",
        );
        let changed = before.changed(&now, &["gateway.services", "gateway.lis"]);
        assert_eq!(changed, ["gateway.listen", "mesh.peers", "server.admin_port", "server.grpc_port"]);
        assert!(before.has("server") && before.has("mesh.peers") && !before.has("mesh.peer"));
    }
}
