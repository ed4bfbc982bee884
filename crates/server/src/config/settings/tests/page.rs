//! The operators' page and the code say the same.

use super::super::places::{Places, Syntax, variable_name};
use super::super::reading::{Known, Reading};
use super::super::{Node, Source, Value, read};
use super::{with_variables, yaml};
use std::collections::BTreeSet;
use std::sync::Arc;

const PAGE: &str = include_str!("../../../../../../docs/reference/configuration.md");

const GATEWAY: &str =
    "gateway: {tls: {cert: a, key: b}, services: [{id: app, upstream: 'http://192.0.2.1:3000'}]}";

/// The keys of limits, which the page tells once for all places that have them.
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
const OF_WEBSOCKETS: &[&str] = &["paths", "max_open", "on_limit"];

fn keys_of_the_code() -> BTreeSet<String> {
    let places = Places::new(Arc::new(Source { name: String::new(), text: String::new() }), Syntax::Yaml);
    let nothing = Node { value: Value::Null, span: 0..0 };
    let mut reading = Reading::new(&places);
    read(&mut reading, &nothing);
    let keys = reading.known.iter().filter(|(_, known)| **known != Known::Section);
    let is_told_once = |key: &str| OF_LIMITS.contains(&key) || OF_WEBSOCKETS.contains(&key);
    let name = |path: &str| match path.rsplit_once('.') {
        Some((_, last)) if path.starts_with("gateway.") && is_told_once(last) => last.to_owned(),
        _ => path.to_owned(),
    };
    keys.map(|(path, _)| name(path)).collect()
}

/// The rows of tables of keys: key, and the default where there is one.
fn rows() -> Vec<(&'static str, Option<&'static str>)> {
    let tables = PAGE.lines().skip_while(|line| !line.starts_with("## `server`"));
    let rows = tables.filter(|line| line.starts_with("| `")).map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let default = cells.get(2).and_then(|cell| cell.strip_prefix('`')?.strip_suffix('`'));
        (cells[0].trim_matches('`'), default)
    });
    rows.collect()
}

// Seen failing on: the row of `server.host` left out, and one of `server.port` put in.
#[test]
fn every_key_of_the_code_is_on_the_page_and_every_key_of_the_page_in_the_code() {
    let page: BTreeSet<String> = rows().iter().map(|(key, _)| (*key).to_owned()).collect();
    let code = keys_of_the_code();
    assert_eq!(code.difference(&page).collect::<Vec<_>>(), Vec::<&String>::new(), "not on the page");
    assert_eq!(page.difference(&code).collect::<Vec<_>>(), Vec::<&String>::new(), "not in the code");
    assert_eq!(rows().len(), page.len(), "a key is there twice");
}

// Seen failing on: `idle_ttl` of 301s on the page.
#[test]
fn the_defaults_on_the_page_are_those_of_the_code() {
    let with_default = rows().into_iter().filter(|(key, _)| key.contains('.') && !key.contains("[]"));
    let mut count = 0;
    for (key, default) in with_default {
        let Some(default) = default else { continue };
        // A gateway without a service is none.
        let file = if key.starts_with("gateway.") { GATEWAY } else { "" };
        let loaded = with_variables(file, &[(&variable_name(key), default)]);
        let loaded = loaded.unwrap_or_else(|problems| panic!("{key}: {problems}"));
        assert_eq!(loaded.settings, yaml(file).unwrap().settings, "{key}");
        count += 1;
    }
    assert!(count > 60, "{count} defaults were found");
}
