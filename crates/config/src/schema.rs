//! The JSON Schema of a configuration: every key that the code asks for, what it takes, and what the
//! reference page says of it. Draft 7, which every editor knows.

use super::document::{Node, Value as Tree};
use super::places::{Places, Syntax};
use super::problem::Source;
use super::reading::{Known, Reading};
use super::reference;
use super::reference::{CONFIGURATION, Row};
use super::shape::Shape;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Keys that a section must have, where it is there.
const NEEDED: &[(&str, &[&str])] = &[
    ("gateway", &["services"]),
    ("gateway.services[]", &["id", "upstream"]),
    ("gateway.services[].endpoints[]", &["id", "path"]),
    ("gateway.tls.certificates[]", &["cert", "key"]),
    ("security.grpc_tls", &["cert", "key"]),
    ("security.metrics_tls", &["cert", "key"]),
    ("security.admin.tls", &["cert", "key"]),
];
/// Sections in which a certificate and its key stand together, or neither.
const PAIRED: &[&str] = &["gateway.tls", "storage.redis.tls"];

/// The schema of a whole file, of which `read` asks for every key.
pub fn configuration(read: impl for<'n> FnOnce(&mut Reading<'n>, &'n Node)) -> Value {
    let places = Places::new(Arc::new(Source { name: String::new(), text: String::new() }), Syntax::Yaml);
    let nothing = Node { value: Tree::Null, span: 0..0 };
    let mut reading = Reading::new(&places);
    read(&mut reading, &nothing);
    let keys = Keys {
        known: &reading.known,
        shapes: &reading.shapes,
        page: reference::rows(CONFIGURATION, "", ""),
        older: reference::older(),
    };
    let mut schema = keys.section("");
    if let Value::Object(schema) = &mut schema {
        schema.insert("$schema".into(), "http://json-schema.org/draft-07/schema#".into());
        schema.insert("title".into(), "Configuration of Hivemind".into());
        schema.insert("allOf".into(), json!(conditions()));
    }
    schema
}

/// What belongs together across sections.
fn conditions() -> [Value; 2] {
    let kind = |kind: &str| {
        let storage = json!({"required": ["kind"], "properties": {"kind": {"const": kind}}});
        json!({"required": ["storage"], "properties": {"storage": storage}})
    };
    let url = json!({"required": ["redis"], "properties": {"redis": {"required": ["url"]}}});
    let files = json!({"required": ["tls"], "properties": {"tls": {"required": ["ca", "cert", "key"]}}});
    [
        json!({"if": kind("redis"), "then": {"properties": {"storage": url}}}),
        json!({"if": kind("mesh"), "then": {"required": ["mesh"], "properties": {"mesh": files}}}),
    ]
}

struct Keys<'a> {
    known: &'a BTreeMap<String, Known>,
    shapes: &'a BTreeMap<String, Shape>,
    page: BTreeMap<&'static str, Row>,
    older: BTreeMap<&'static str, String>,
}

impl Keys<'_> {
    /// A map with the keys right below `path`, and no others.
    fn section(&self, path: &str) -> Value {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
        let below = self.known.keys().filter_map(|key| {
            let name = key.strip_prefix(prefix.as_str())?;
            (!name.contains(['.', '['])).then(|| (name.to_owned(), self.key(key)))
        });
        let keys: Map<String, Value> = below.collect();
        let mut schema =
            json!({"type": ["object", "null"], "additionalProperties": false, "properties": keys});
        let Value::Object(fields) = &mut schema else { return schema };
        if let Some((_, needed)) = NEEDED.iter().find(|(of, _)| *of == path) {
            fields.insert("required".into(), json!(needed));
        }
        if PAIRED.contains(&path) {
            fields.insert("dependencies".into(), json!({"cert": ["key"], "key": ["cert"]}));
        }
        if let Some(what) = reference::section(path) {
            fields.insert("description".into(), what.into());
        }
        schema
    }

    fn key(&self, path: &str) -> Value {
        let mut schema = match self.shapes.get(path) {
            Some(Shape::Section { or_off: false }) => return self.section(path),
            Some(Shape::Section { or_off: true }) => {
                return json!({"anyOf": [self.section(path), {"enum": ["off", "no", false]}]});
            }
            Some(Shape::Sections) => {
                let least = usize::from(path == "gateway.services");
                let items = self.section(&format!("{path}[]"));
                json!({"type": ["array", "null"], "minItems": least, "items": items})
            }
            Some(shape) => shape.schema(),
            None => json!({}),
        };
        if let Value::Object(fields) = &mut schema {
            self.describe(path, fields);
        }
        schema
    }

    /// What the page says of a key. Those of limits and of `websocket` stand there once for all places.
    fn describe(&self, path: &str, fields: &mut Map<String, Value>) {
        let last = path.rsplit('.').next().unwrap_or(path);
        if let Some(row) = self.page.get(path).or_else(|| self.page.get(last)) {
            fields.insert("description".into(), row.meaning.clone().into());
        }
        if let Some((default, shape)) = self.default(path).zip(self.shapes.get(path)) {
            fields.insert("default".into(), shape.value(default));
        }
        if let Some(now) = self.older.get(path) {
            let now = format!("A key of an older design: {now}");
            fields.insert("deprecated".into(), true.into());
            fields.insert("description".into(), now.into());
        }
    }

    /// What a key is if nobody says. What is left open is the level's above, so of limits the outermost alone has
    /// defaults, and the guard of addresses, which is made of all others, has none.
    fn default(&self, path: &str) -> Option<&'static str> {
        if let Some(row) = self.page.get(path) {
            let is_key = |default: &str| self.known.get(default) == Some(&Known::Value);
            return row.default.filter(|default| !is_key(default));
        }
        let (place, key) = path.rsplit_once('.')?;
        let default = self.page.get(key)?.default;
        let is_delay = matches!(key, "mode" | "delay_after");
        match place.strip_prefix("gateway.platform").unwrap_or(place) {
            // What has come already is not held back, so there is nothing to choose.
            ".ip_guard" => None,
            _ if is_delay && place.ends_with(".messages") => None,
            "" | ".websocket" => default,
            ".websocket.connections" => reference::of_websocket("connections", key).or(default),
            ".websocket.messages" => reference::of_websocket("messages", key).or(default),
            // It belongs to the `mode` beside it, and so to no other level.
            _ => default.filter(|_| key == "delay_after"),
        }
    }
}
