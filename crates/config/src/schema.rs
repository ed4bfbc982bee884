//! JSON Schema of the configuration: every key that the code reads, its type, and its text on the reference page.
//! Draft 7, which all editors support.

use super::document::{SpannedValue, Value as Tree};
use super::key_type::KeyType;
use super::problem::SourceText;
use super::problem::TextSpan;
use super::reader::{ConfigReader, KeyRole};
use super::reference;
use super::reference::{CONFIGURATION, ReferenceRow};
use super::source_map::{SourceMap, Syntax};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Required keys of sections.
const NEEDED: &[(&str, &[&str])] = &[
    ("gateway", &["services"]),
    ("gateway.services[]", &["id", "upstream"]),
    ("gateway.services[].endpoints[]", &["id", "path"]),
    ("gateway.tls.certificates[]", &["cert", "key"]),
    ("security.grpc_tls", &["cert", "key"]),
    ("security.metrics_tls", &["cert", "key"]),
    ("security.admin.tls", &["cert", "key"]),
];
/// Sections that have both a certificate and its key, or neither.
const PAIRED: &[&str] = &["gateway.tls", "storage.redis.tls"];

/// Returns the schema of a file whose keys `read` reads.
pub fn configuration(read: impl for<'n> FnOnce(&mut ConfigReader<'n>, &'n SpannedValue)) -> Value {
    let places =
        SourceMap::new(Arc::new(SourceText { name: String::new(), text: String::new() }), Syntax::Yaml);
    let nothing = SpannedValue { value: Tree::Null, span: TextSpan::default() };
    let mut reader = ConfigReader::new(&places);
    read(&mut reader, &nothing);
    let keys = SchemaWriter {
        roles: &reader.roles,
        types: &reader.types,
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

/// Conditions across sections.
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

struct SchemaWriter<'a> {
    roles: &'a BTreeMap<String, KeyRole>,
    types: &'a BTreeMap<String, KeyType>,
    page: BTreeMap<&'static str, ReferenceRow>,
    older: BTreeMap<&'static str, String>,
}

impl SchemaWriter<'_> {
    /// Schema of a map with exactly the keys directly below `path`.
    fn section(&self, path: &str) -> Value {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
        let below = self.roles.keys().filter_map(|key| {
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
        let mut schema = match self.types.get(path) {
            Some(KeyType::Section { or_off: false }) => return self.section(path),
            Some(KeyType::Section { or_off: true }) => {
                return json!({"anyOf": [self.section(path), {"enum": ["off", "no", false]}]});
            }
            Some(KeyType::Sections) => {
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

    /// Adds the reference page's text for a key. Keys of limits and of `websocket` have one row for all sections.
    fn describe(&self, path: &str, fields: &mut Map<String, Value>) {
        let last = path.rsplit('.').next().unwrap_or(path);
        if let Some(row) = self.page.get(path).or_else(|| self.page.get(last)) {
            fields.insert("description".into(), row.meaning.clone().into());
        }
        if let Some((default, shape)) = self.default(path).zip(self.types.get(path)) {
            fields.insert("default".into(), shape.value(default));
        }
        if let Some(now) = self.older.get(path) {
            let now = format!("A key of an older design: {now}");
            fields.insert("deprecated".into(), true.into());
            fields.insert("description".into(), now.into());
        }
    }

    /// Default of a key. A limit inherits unset keys from the level above, so only the outermost level has defaults;
    /// the IP guard combines all other limits and has none.
    fn default(&self, path: &str) -> Option<&'static str> {
        if let Some(row) = self.page.get(path) {
            let is_key = |default: &str| self.roles.get(default) == Some(&KeyRole::Value);
            return row.default.filter(|default| !is_key(default));
        }
        let (place, key) = path.rsplit_once('.')?;
        let default = self.page.get(key)?.default;
        let is_delay = matches!(key, "mode" | "delay_after");
        match place.strip_prefix("gateway.platform").unwrap_or(place) {
            // Received messages are not delayed, so these keys have no default.
            ".ip_guard" => None,
            _ if is_delay && place.ends_with(".messages") => None,
            "" | ".websocket" => default,
            ".websocket.connections" => reference::of_websocket("connections", key).or(default),
            ".websocket.messages" => reference::of_websocket("messages", key).or(default),
            // It belongs to the `mode` of the same level and is not inherited.
            _ => default.filter(|_| key == "delay_after"),
        }
    }
}
