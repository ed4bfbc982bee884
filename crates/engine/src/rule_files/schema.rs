//! JSON Schema of rule files: the keys known to the readers, their types, and their descriptions from the
//! reference page.

use super::limit_reader::{ALGORITHMS, LIMIT_KEYS, REPLACES_KEYS, UNITS};
use super::response_reader::{QUOTA_KEYS, RESPONSE_KEYS};
use super::rule_file::{DESCRIPTOR_KEYS, FILE_KEYS, MOST_LIMITS};
use crate::storage::OnError;
use hivemind_config::reference;
use hivemind_config::reference::RULES;
use hivemind_core::{Consistency, OnUnreachable};
use serde_json::{Map, Value, json};

/// A duration as accepted by the reader of `response`.
const SPAN: &str = "^0*[1-9][0-9]*(ms|s|m|h|d)$";

/// An HTTP header name.
const HEADER: &str = "^[A-Za-z0-9!#$%&'*+.^_`|~-]+$";

/// The schema of a whole file.
pub fn rules() -> Value {
    let mut schema = map("## The file", "key", FILE_KEYS, file_key);
    let definitions = json!({
        "descriptor": descriptor(),
        "limit": limit(),
        "replaced": replaced(),
        "response": map("## `response`", "key of `response`", RESPONSE_KEYS, response_key),
        "quota": map("## `response`", "key of `quota`", QUOTA_KEYS, quota_key),
        "headers": {"type": "object", "propertyNames": {"pattern": HEADER}, "additionalProperties": text()},
    });
    if let Value::Object(fields) = &mut schema {
        fields.insert("$schema".into(), "http://json-schema.org/draft-07/schema#".into());
        fields.insert("title".into(), "Rules of Hivemind, in envoyproxy/ratelimit's language".into());
        fields.insert("required".into(), json!(["domain"]));
        fields.insert("definitions".into(), definitions);
    }
    schema
}

fn descriptor() -> Value {
    let mut schema = map("## A descriptor", "key", DESCRIPTOR_KEYS, descriptor_key);
    let shared = json!({"required": ["share_threshold"], "properties": {"share_threshold": {"enum": [true, "yes", "on"]}}});
    let pattern =
        json!({"required": ["value"], "properties": {"value": {"type": "string", "pattern": "\\*"}}});
    if let Value::Object(fields) = &mut schema {
        fields.insert("required".into(), json!(["key"]));
        fields.insert("not".into(), json!({"required": ["rate_limit", "rate_limits"]}));
        fields.insert("if".into(), shared);
        fields.insert("then".into(), pattern);
    }
    schema
}

fn limit() -> Value {
    let mut schema = map("## A limit", "key", LIMIT_KEYS, limit_key);
    let unlimited =
        json!({"required": ["unlimited"], "properties": {"unlimited": {"enum": [true, "yes", "on"]}}});
    let is_bucket =
        json!({"required": ["algorithm"], "properties": {"algorithm": {"const": "token_bucket"}}});
    let has_rate =
        json!({"required": ["requests_per_unit"], "properties": {"requests_per_unit": {"minimum": 1}}});
    let conditions = json!([
        {"if": unlimited, "then": {"not": {"required": ["unit"]}}, "else": {"required": ["unit"]}},
        {"if": unlimited, "else": {"if": is_bucket, "then": has_rate, "else": {"not": {"required": ["burst"]}}}},
    ]);
    if let Value::Object(fields) = &mut schema {
        fields.insert("allOf".into(), conditions);
    }
    schema
}

fn replaced() -> Value {
    let mut schema = map("## A limit", "key of `replaces`", REPLACES_KEYS, |_| name());
    if let Value::Object(fields) = &mut schema {
        fields.insert("required".into(), json!(REPLACES_KEYS));
    }
    schema
}

/// A map that has only these keys. A misplaced key of another level is invalid here, although the reader only
/// warns about it: editors should mark it.
fn map(heading: &str, head: &str, keys: &[&str], shape: fn(&str) -> Value) -> Value {
    let page = reference::rows(RULES, heading, head);
    let properties = keys.iter().map(|key| {
        let mut schema = shape(key);
        // Draft 7 ignores the siblings of a `$ref`.
        if let (Value::Object(fields), Some(row)) = (&mut schema, page.get(key)) {
            if let Some(reference) = fields.remove("$ref") {
                fields.insert("allOf".into(), json!([{"$ref": reference}]));
            }
            fields.insert("description".into(), row.meaning.clone().into());
        }
        ((*key).to_owned(), schema)
    });
    let properties: Map<String, Value> = properties.collect();
    json!({"type": "object", "additionalProperties": false, "properties": properties})
}

fn file_key(key: &str) -> Value {
    match key {
        "domain" => name(),
        _ => descriptors(),
    }
}

fn descriptor_key(key: &str) -> Value {
    match key {
        "key" => name(),
        "value" => text(),
        "rate_limit" => json!({"$ref": "#/definitions/limit"}),
        "rate_limits" => {
            let alone = json!({"items": {"not": {"required": ["unlimited"]}}});
            let items = json!({"$ref": "#/definitions/limit"});
            json!({
                "type": "array", "minItems": 1, "maxItems": MOST_LIMITS, "items": items,
                "if": {"minItems": 2}, "then": alone,
            })
        }
        "descriptors" => descriptors(),
        "metadata" => json!({"type": "object"}),
        "response" => json!({"$ref": "#/definitions/response"}),
        _ => flag(),
    }
}

fn limit_key(key: &str) -> Value {
    match key {
        "unit" => {
            json!({"anyOf": [words(UNITS.iter().map(|(name, _)| *name)), {"pattern": units_of_any_case()}]})
        }
        "requests_per_unit" => json!({"type": "integer", "minimum": 0, "maximum": u32::MAX}),
        "unlimited" => flag(),
        "replaces" => json!({"type": ["array", "null"], "items": {"$ref": "#/definitions/replaced"}}),
        "algorithm" => words(ALGORITHMS.iter().map(|(name, _)| *name)),
        "burst" => json!({"type": "integer", "minimum": 1, "maximum": i32::MAX}),
        "unit_multiplier" => json!({"type": "integer", "minimum": 1, "maximum": u32::MAX}),
        "consistency" => words(Consistency::NAMED.iter().map(|(name, _)| *name)),
        "on_error" => words(OnError::CHOICES.iter().map(|(name, _)| *name)),
        "on_unreachable" => words(OnUnreachable::NAMED.iter().map(|(name, _)| *name)),
        _ => text(),
    }
}

fn response_key(key: &str) -> Value {
    match key {
        "headers" | "request_headers" => json!({"$ref": "#/definitions/headers"}),
        "quota" => json!({"$ref": "#/definitions/quota"}),
        _ => text(),
    }
}

fn quota_key(key: &str) -> Value {
    match key {
        "valid_for" => json!({"type": "string", "pattern": SPAN}),
        _ => text(),
    }
}

fn descriptors() -> Value {
    json!({"type": ["array", "null"], "items": {"$ref": "#/definitions/descriptor"}})
}

fn words<'a>(words: impl Iterator<Item = &'a str>) -> Value {
    json!({"enum": words.collect::<Vec<_>>()})
}

/// Case-insensitive pattern. JSON Schema has no portable flag for it.
fn units_of_any_case() -> String {
    let any_case =
        |name: &str| -> String { name.chars().flat_map(|c| ['[', c.to_ascii_uppercase(), c, ']']).collect() };
    format!("^({})$", UNITS.map(|(name, _)| any_case(name)).join("|"))
}

fn flag() -> Value {
    json!({"enum": [true, false, "yes", "no", "on", "off", null]})
}

/// A text exactly as written; a number with a fraction must be quoted.
fn text() -> Value {
    json!({"type": ["string", "integer", "boolean", "null"]})
}

fn name() -> Value {
    json!({"type": ["string", "integer", "boolean"], "minLength": 1})
}
