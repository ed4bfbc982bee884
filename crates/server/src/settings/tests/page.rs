//! Tests that docs/reference/configuration.md agrees with the code. `HIVEMIND_WRITE_PAGES=1` regenerates its types. Its
//! defaults are compared by `defaults.rs`, by way of the schema.

use super::super::{SourceText, SpannedValue, Value, configuration_schema as configuration, read};
use hivemind_config::reader::{ConfigReader, KeyRole};
use hivemind_config::reference;
use hivemind_config::reference::CONFIGURATION;
use hivemind_config::source_map::{SourceMap, Syntax};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// The keys of limits, which the page describes once for all places.
const OF_LIMITS: &[&str] = &[
    "requests",
    "requests_per_second",
    "window",
    "burst",
    "algorithm",
    "mode",
    "delay_after",
    "dry_run",
    "enabled",
];
/// The keys of a `websocket`, likewise.
const OF_WEBSOCKETS: &[&str] = &["paths", "max_open", "pings_per_second", "on_limit"];
/// Defaults without a fixed value: they depend on the machine or on another setting.
const IN_WORDS: &[(&str, &str)] = &[
    ("server.workers", "one for each core"),
    ("server.max_connections_per_client", "a quarter of all"),
    ("gateway.max_connections_per_client", "a quarter of all"),
];

/// The page's name for a key.
fn name_on_the_page(path: &str) -> &str {
    let is_documented_once = |key: &str| OF_LIMITS.contains(&key) || OF_WEBSOCKETS.contains(&key);
    match path.rsplit_once('.') {
        Some((_, last)) if path.starts_with("gateway.") && is_documented_once(last) => last,
        _ => path,
    }
}

/// The keys with their types, named as on the page.
fn keys_of_the_code() -> BTreeMap<String, String> {
    let places =
        SourceMap::new(Arc::new(SourceText { name: String::new(), text: String::new() }), Syntax::Yaml);
    let nothing = SpannedValue { value: Value::Null, span: hivemind_config::problem::TextSpan::default() };
    let mut reading = ConfigReader::new(&places);
    read(&mut reading, &nothing);
    let mut keys = BTreeMap::new();
    for (path, _) in reading.roles.iter().filter(|(_, known)| **known != KeyRole::Section) {
        let takes = reading.types[path].named();
        let before = keys.insert(name_on_the_page(path).to_owned(), takes.clone());
        assert!(before.is_none_or(|before| before == takes), "{path} takes something else elsewhere");
    }
    keys
}

/// The cells of all key tables, by row.
fn rows() -> Vec<Vec<&'static str>> {
    let tables = CONFIGURATION.split("\n\n").filter(|part| part.starts_with("| key"));
    let rows = tables.flat_map(|table| table.lines().skip(2));
    rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

// Seen failing on: the row of `server.admin_uds` missing, and an added row of `server.port`.
#[test]
fn page_lists_exactly_the_configuration_keys() {
    let rows = rows();
    let older = reference::older();
    let keys = rows.iter().map(|row| row[0].trim_matches('`')).chain(older.keys().copied());
    let page: BTreeSet<String> = keys.map(str::to_owned).collect();
    let code: BTreeSet<String> = keys_of_the_code().into_keys().collect();
    assert_eq!(code.difference(&page).collect::<Vec<_>>(), Vec::<&String>::new(), "not on the page");
    assert_eq!(page.difference(&code).collect::<Vec<_>>(), Vec::<&String>::new(), "not in the code");
    assert_eq!(rows.len() + older.len(), page.len(), "a key is there twice");
    assert!(rows.iter().all(|row| row.len() == 4), "a row has a cell too many or too few");
}

// Seen failing on: `number` for `server.shutdown_grace`, a missing word of `storage.kind`.
#[test]
fn configuration_types_on_the_page_match_the_code() {
    let keys = keys_of_the_code();
    let mut page = CONFIGURATION.to_owned();
    for row in rows() {
        let key = row[0].trim_matches('`');
        let Some(takes) = keys.get(key) else { continue };
        page = page.replace(&format!("| `{key}` | {} | ", row[1]), &format!("| `{key}` | {takes} | "));
    }
    if std::env::var_os("HIVEMIND_WRITE_PAGES").is_some() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configuration.md");
        std::fs::write(path, &page).unwrap();
    }
    let differ = CONFIGURATION.lines().zip(page.lines()).filter(|(page, code)| page != code);
    let differ: Vec<&str> = differ.map(|(_, code)| code).collect();
    assert!(differ.is_empty(), "the types of these rows are others: {differ:#?}");
}

/// The schema of a key.
fn schema_of<'s>(schema: &'s serde_json::Value, path: &str) -> &'s serde_json::Value {
    path.split('.').fold(schema, |schema, name| {
        let key = &schema["properties"][name.trim_end_matches("[]")];
        if name.ends_with("[]") { &key["items"] } else { key }
    })
}

// Seen failing on: `http429` without its backticks, and `two for each core`.
#[test]
fn page_default_is_a_value_a_key_or_unset() {
    let (keys, schema, mut wrong) = (keys_of_the_code(), configuration(), Vec::new());
    for row in rows() {
        let (key, cell) = (row[0].trim_matches('`'), row[2]);
        let value = cell.strip_prefix('`').and_then(|cell| cell.strip_suffix('`'));
        // A key described once for all places has the default of the outermost place.
        let path = match key {
            key if OF_LIMITS.contains(&key) => format!("gateway.platform.{key}"),
            key if OF_WEBSOCKETS.contains(&key) => format!("gateway.platform.websocket.{key}"),
            key => key.to_owned(),
        };
        let default = schema_of(&schema, &path).get("default");
        let is_key = value.is_some_and(|value| value.contains('.') && keys.contains_key(value));
        let is_documented = value.is_some() || cell == "–" || IN_WORDS.contains(&(key, cell));
        if !is_documented || default.is_some() != (value.is_some() && !is_key) {
            wrong.push(format!("{key}: {cell}, and in the schema {default:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
