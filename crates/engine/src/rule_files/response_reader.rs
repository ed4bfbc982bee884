//! Reader of `response: {headers, request_headers, raw_body, quota}`, which a rule adds to its responses.

use super::reader::RuleFileReader;
use crate::ruleset::{Quota, RuleResponse};
use hivemind_config::document::{SpannedValue, Value};
use std::time::Duration;

pub(super) const RESPONSE_KEYS: &[&str] = &["headers", "request_headers", "raw_body", "quota"];
pub(super) const QUOTA_KEYS: &[&str] = &["id", "valid_for"];

/// Reads the section; reports invalid parts and skips them.
pub(super) fn read(reader: &mut RuleFileReader<'_>, node: &SpannedValue) -> RuleResponse {
    let Some(fields) = reader.fields(node, "`response`", RESPONSE_KEYS) else {
        return RuleResponse::default();
    };
    let mut headers = |key| fields.get(key).map(|node| headers(reader, node, key)).unwrap_or_default();
    let (for_client, for_upstream) = (headers("headers"), headers("request_headers"));
    RuleResponse {
        headers: for_client,
        request_headers: for_upstream,
        raw_body: fields.get("raw_body").and_then(|node| reader.text(node, "raw_body")),
        quota: fields.get("quota").and_then(|node| quota(reader, node)),
    }
}

fn headers(reader: &mut RuleFileReader<'_>, node: &SpannedValue, key: &str) -> Vec<(String, String)> {
    let Value::Map(pairs) = &node.value else {
        let cause = format!("`{key}` is a map of header names and values, and this is {}", node.value.kind());
        reader.problem(Some(node.span), cause, format!("write `{key}: {{x-plan: gold}}`"));
        return Vec::new();
    };
    let mut headers = Vec::new();
    for (name, value) in pairs {
        let (Some(name_text), Some(text)) = (reader.text(name, "name"), reader.text(value, "value")) else {
            continue;
        };
        if http::HeaderName::from_bytes(name_text.as_bytes()).is_err() {
            let cause = format!("`{name_text}` is not a header name");
            reader.problem(Some(name.span), cause, "use letters, digits and `-`");
        } else if http::HeaderValue::from_str(&text).is_err() {
            let remedy = "remove control characters and line breaks";
            reader.problem(Some(value.span), "this cannot be a header value", remedy);
        } else {
            headers.push((name_text, text));
        }
    }
    headers
}

fn quota(reader: &mut RuleFileReader<'_>, node: &SpannedValue) -> Option<Quota> {
    let fields = reader.fields(node, "`quota`", QUOTA_KEYS)?;
    let id = reader.optional_text(&fields, "id")?;
    let valid_for = match fields.get("valid_for") {
        Some(node) => duration(reader, node, "valid_for")?,
        None => Duration::from_secs(1),
    };
    Some(Quota { id, valid_for })
}

/// A duration such as `500ms`, `60s`, `5m`, `1h` or `1d`.
fn duration(reader: &mut RuleFileReader<'_>, node: &SpannedValue, key: &str) -> Option<Duration> {
    let text = reader.text(node, key)?;
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let number: Option<u64> = number.parse().ok();
    let millis = match unit {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    let span =
        number.zip(millis).and_then(|(number, millis)| number.checked_mul(millis)).filter(|span| *span > 0);
    if span.is_none() {
        let cause = format!("`{key}` is a duration above 0");
        reader.problem(Some(node.span), cause, format!("write `{key}: 500ms`, `60s` or `5m`"));
    }
    span.map(Duration::from_millis)
}
