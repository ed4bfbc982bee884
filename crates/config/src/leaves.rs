//! What was written in a file and in the environment over it, key by key, so that what has changed
//! can be named. Of values only a hash is kept: some are secrets.

use super::document::{Node, Value};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Every key that has a value, by its path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaves(BTreeMap<String, u64>);

impl Leaves {
    pub fn of(root: &Node) -> Self {
        let mut leaves = Self::default();
        leaves.add("", root);
        leaves
    }

    fn add(&mut self, path: &str, node: &Node) {
        match &node.value {
            Value::Null => {}
            Value::Map(pairs) => {
                for (key, value) in pairs {
                    let Value::Scalar { text, .. } = &key.value else { continue };
                    let path = if path.is_empty() { text.clone() } else { format!("{path}.{text}") };
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

    /// Whether this key, or one below it, is written.
    pub fn has(&self, key: &str) -> bool {
        self.0.keys().any(|path| is_in(path, key))
    }

    /// The keys that are other in `now`, without those in any of `but`.
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
    use super::Leaves;
    use crate::document;
    use crate::problem::Source;
    use std::sync::Arc;

    fn leaves(text: &str) -> Leaves {
        Leaves::of(
            &document::parse(&Arc::new(Source { name: String::new(), text: text.to_owned() })).unwrap(),
        )
    }

    #[test]
    fn what_was_added_changed_or_taken_away_is_named_but_for_what_is_left_out() {
        let before = leaves(
            "{server: {host: ::1, grpc_port: 1}, mesh: {peers: [a]}, gateway: {services: [1], listen: a}}",
        );
        let now = leaves(
            "{server: {host: ::1, admin_port: 2}, mesh: {peers: [a, b]}, gateway: {services: [2], listen: b}}",
        );
        let changed = before.changed(&now, &["gateway.services", "gateway.lis"]);
        assert_eq!(changed, ["gateway.listen", "mesh.peers", "server.admin_port", "server.grpc_port"]);
        assert!(before.has("server") && before.has("mesh.peers") && !before.has("mesh.peer"));
    }
}
