//! Variables of the environment, laid over the tree of the file before it is read.

use super::document;
use super::document::{Node, Value};
use super::places::Places;
use super::problem::Source;
use super::words::distance;
use std::ops::Range;
use std::sync::Arc;

const PREFIX: &str = "HIVEMIND_";
/// No key is as deep as this; a variable that is must not grow a tree that ends the stack.
const DEEPEST: usize = 8;

/// Lays every `HIVEMIND_SECTION__KEY` over `root`. Other variables are somebody else's:
/// Kubernetes sets `HIVEMIND_PORT` and `HIVEMIND_SERVICE_HOST` for a service of our name.
/// `sections` are the names of all sections. Returns the names of those with our prefix.
pub fn overlay(
    root: &mut Node,
    places: &mut Places,
    variables: impl Iterator<Item = (String, String)>,
    sections: &[&str],
) -> Vec<String> {
    let mut others = Vec::new();
    let mut variables: Vec<_> = variables.filter(|(name, _)| name.starts_with(PREFIX)).collect();
    // One order whatever the system's, and a section before its keys, which then win.
    variables.sort();
    for (name, value) in variables {
        let path = name.trim_start_matches(PREFIX).to_lowercase();
        let Some((section, _)) = path.split_once("__") else {
            others.push(name);
            continue;
        };
        // `HIVEMIND_SERVR__HOST` was meant for us; `HIVEMIND_FOO__BAR` was not.
        let ours = sections.iter().any(|known| distance(section, known) <= 2);
        // `${PORT:-}` in a manifest leaves an empty value behind where nothing was set.
        if !ours || value.trim().is_empty() {
            continue;
        }
        let span = places.add_variable(&name);
        let keys: Vec<&str> = path.splitn(DEEPEST, "__").collect();
        put(root, &keys, node_of(&value, &span), &span);
    }
    others
}

fn put(node: &mut Node, keys: &[&str], value: Node, span: &Range<usize>) {
    let Some((key, below)) = keys.split_first() else {
        *node = value;
        return;
    };
    if !matches!(node.value, Value::Map(_)) {
        *node = Node { value: Value::Map(Vec::new()), span: span.clone() };
    }
    let Value::Map(pairs) = &mut node.value else { return };
    let is_key = |node: &Node| matches!(&node.value, Value::Scalar { text, .. } if text == key);
    let index = pairs.iter().position(|(name, _)| is_key(name)).unwrap_or_else(|| {
        let name = Value::Scalar { text: (*key).to_owned(), plain: true };
        let name = Node { value: name, span: span.clone() };
        pairs.push((name, Node { value: Value::Null, span: span.clone() }));
        pairs.len() - 1
    });
    let Some((name, child)) = pairs.get_mut(index) else { return };
    if below.is_empty() {
        // From here on it is the variable that says this, and not the file's line.
        name.span = span.clone();
    }
    put(child, below, value, span);
}

/// A list or a map as YAML writes them on one line, or the text as it is.
fn node_of(value: &str, span: &Range<usize>) -> Node {
    let value = value.trim();
    let is_flow =
        (value.starts_with('[') && value.ends_with(']')) || (value.starts_with('{') && value.ends_with('}'));
    if is_flow {
        let source = Arc::new(Source { name: String::new(), text: value.to_owned() });
        if let Ok(mut node) = document::parse(&source) {
            move_to(&mut node, span);
            return node;
        }
    }
    Node { value: Value::Scalar { text: value.to_owned(), plain: true }, span: span.clone() }
}

fn move_to(node: &mut Node, span: &Range<usize>) {
    node.span = span.clone();
    match &mut node.value {
        Value::Null | Value::Scalar { .. } => {}
        Value::List(items) => items.iter_mut().for_each(|item| move_to(item, span)),
        Value::Map(pairs) => pairs.iter_mut().for_each(|(key, value)| {
            move_to(key, span);
            move_to(value, span);
        }),
    }
}
