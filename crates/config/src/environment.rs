//! Environment variables, merged into the tree of the file before it is read.

use super::document;
use super::document::{SpannedValue, Value};
use super::problem::{SourceText, TextSpan};
use super::source_map::SourceMap;
use super::spelling::distance;
use std::sync::Arc;

const PREFIX: &str = "HIVEMIND_";
/// Maximum depth of a key, so that a variable cannot create a tree that overflows the stack.
const DEEPEST: usize = 8;

/// Merges every `HIVEMIND_SECTION__KEY` into `root`. Other variables with the prefix are ignored, because Kubernetes
/// sets `HIVEMIND_PORT` and `HIVEMIND_SERVICE_HOST` for a service of this name; their names are returned. `sections`
/// are the names of all sections.
pub fn overlay(
    root: &mut SpannedValue,
    places: &mut SourceMap,
    variables: impl Iterator<Item = (String, String)>,
    sections: &[&str],
) -> Vec<String> {
    let mut others = Vec::new();
    let mut variables: Vec<_> = variables.filter(|(name, _)| name.starts_with(PREFIX)).collect();
    // Sorted for a stable result: a section comes before its keys, which override it.
    variables.sort();
    for (name, value) in variables {
        let path = name.trim_start_matches(PREFIX).to_lowercase();
        let Some((section, _)) = path.split_once("__") else {
            others.push(name);
            continue;
        };
        // `HIVEMIND_SERVR__HOST` is a misspelled setting; `HIVEMIND_FOO__BAR` is unrelated.
        let ours = sections.iter().any(|known| distance(section, known) <= 2);
        // `${PORT:-}` in a manifest produces an empty value if the variable is unset.
        if !ours || value.trim().is_empty() {
            continue;
        }
        let span = places.add_variable(&name);
        let keys: Vec<&str> = path.splitn(DEEPEST, "__").collect();
        put(root, &keys, node_of(&value, span), span);
    }
    others
}

fn put(node: &mut SpannedValue, keys: &[&str], value: SpannedValue, span: TextSpan) {
    let Some((key, below)) = keys.split_first() else {
        *node = value;
        return;
    };
    if !matches!(node.value, Value::Map(_)) {
        *node = SpannedValue { value: Value::Map(Box::default()), span };
    }
    let Value::Map(pairs) = &mut node.value else { return };
    let is_key = |node: &SpannedValue| matches!(&node.value, Value::Scalar { text, .. } if **text == **key);
    let index = pairs.iter().position(|(name, _)| is_key(name)).unwrap_or_else(|| {
        let name = Value::Scalar { text: (*key).into(), plain: true };
        let name = SpannedValue { value: name, span };
        let mut all = std::mem::take(pairs).into_vec();
        all.push((name, SpannedValue { value: Value::Null, span }));
        *pairs = all.into();
        pairs.len() - 1
    });
    let Some((name, child)) = pairs.get_mut(index) else { return };
    if below.is_empty() {
        // Problems with this key now refer to the variable instead of the file's line.
        name.span = span;
    }
    put(child, below, value, span);
}

/// Parses a list or map in YAML flow style; any other value is a plain text.
fn node_of(value: &str, span: TextSpan) -> SpannedValue {
    let value = value.trim();
    let is_flow =
        (value.starts_with('[') && value.ends_with(']')) || (value.starts_with('{') && value.ends_with('}'));
    if is_flow {
        let source = Arc::new(SourceText { name: String::new(), text: value.to_owned() });
        if let Ok(mut node) = document::parse(&source) {
            move_to(&mut node, span);
            return node;
        }
    }
    SpannedValue { value: Value::Scalar { text: value.into(), plain: true }, span }
}

fn move_to(node: &mut SpannedValue, span: TextSpan) {
    node.span = span;
    match &mut node.value {
        Value::Null | Value::Scalar { .. } => {}
        Value::List(items) => items.iter_mut().for_each(|item| move_to(item, span)),
        Value::Map(pairs) => pairs.iter_mut().for_each(|(key, value)| {
            move_to(key, span);
            move_to(value, span);
        }),
    }
}
