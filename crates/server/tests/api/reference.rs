//! Reference pages that are generated from the program. After a change,
//! `HIVEMIND_WRITE_PAGES=1 cargo nextest run -E 'binary(api) & test(reference)'` rewrites them.

use crate::description::routed;
use crate::http::json;
use hivemind_testkit::hivemind;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

/// Methods as written on the page of endpoints.
const METHODS: [&str; 5] = ["GET", "PUT", "POST", "DELETE", "PATCH"];

/// Compares a page with its expected text, or writes it.
fn assert_page(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference").join(name);
    if std::env::var_os("HIVEMIND_WRITE_PAGES").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let page = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = page.lines().zip(text.lines()).find(|(page, text)| page != text);
    assert!(
        page == text,
        "docs/reference/{name} is not what it is made of, first at {differs:?}; see reference.rs"
    );
}

/// The help text of a command and the names of its subcommands.
fn help(words: &[String]) -> (String, Vec<String>) {
    let arguments: Vec<&str> = words.iter().map(String::as_str).chain(["--help"]).collect();
    let (code, text) = hivemind(&arguments);
    assert_eq!(code, Some(0), "{words:?}: {text}");
    let below =
        text.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Continuation lines are indented further.
    let names = below.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    (text.clone(), names.map(str::to_owned).collect())
}

pub(crate) fn commands() -> Vec<(Vec<String>, String)> {
    let (mut found, mut open) = (Vec::new(), vec![Vec::new()]);
    while let Some(words) = open.pop() {
        let (text, below) = help(&words);
        open.extend(below.into_iter().rev().map(|name| [words.clone(), vec![name]].concat()));
        found.push((words, text));
    }
    found
}

// Seen failing on: a renamed option.
#[test]
fn cli_reference_equals_the_generated_help() {
    let mut page =
        "# Command line\n\nMade of `hivemind --help` and of each command's; a test holds it to them.\n"
            .to_owned();
    for (words, text) in commands() {
        let name = words.iter().fold("hivemind".to_owned(), |name, word| format!("{name} {word}"));
        let text: String =
            text.lines().map(|line| format!("    {line}").trim_end().to_owned() + "\n").collect();
        write!(page, "\n## `{name}`\n\n{}\n", text.trim_end()).unwrap();
    }
    assert_page("cli.md", &page);
}

// Seen failing on: an endpoint that was left out.
#[test]
fn api_reference_equals_the_openapi_description() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../admin/src/openapi.json");
    let api = json(&std::fs::read_to_string(path).unwrap());
    let mut page = format!(
        "# Admin API\n\n{}\n\nMade of `/api/v1/openapi.json`, which has the schemas of everything; a test holds it to that. From the shell: \
         [`hivemind ctl`](cli.md#hivemind-ctl).\n",
        text(&api["info"]["description"])
    );
    for tag in api["tags"].as_array().unwrap() {
        write!(page, "\n## {}\n", text(&tag["description"])).unwrap();
        for (path, methods) in api["paths"].as_object().unwrap() {
            for (method, operation) in methods.as_object().unwrap() {
                if operation["tags"][0] == tag["name"] {
                    add(&mut page, &api, &format!("{} {path}", method.to_uppercase()), operation);
                }
            }
        }
    }
    assert_page("api.md", &page);
}

/// The endpoints in the first column of the page's table, as `get /api/v1/rules`, each with its query
/// parameters. After the first endpoint, a cell may list other methods of the path, or other last segments.
fn endpoints_of(page: &str) -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    let table = page.split("\n### ").next().unwrap();
    let is_row = |line: &&str| METHODS.iter().any(|method| line.starts_with(&format!("| `{method} /")));
    for row in table.lines().filter(is_row) {
        let cell = row.split('|').nth(1).unwrap();
        let mut words = cell.split('`').skip(1).step_by(2);
        let (method, rest) = words.next().unwrap().split_once(' ').unwrap();
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let path = path.replace("NAME", "{name}");
        let names =
            query.split('&').filter_map(|pair| pair.split('=').next()).filter(|name| !name.is_empty());
        found.insert(format!("{} {path}", method.to_lowercase()), names.map(str::to_owned).collect());
        for word in words {
            let route = if METHODS.contains(&word) {
                format!("{} {path}", word.to_lowercase())
            } else {
                format!("{} {}/{word}", method.to_lowercase(), path.rsplit_once('/').unwrap().0)
            };
            found.insert(route, Vec::new());
        }
    }
    found
}

// Seen failing on: a missing row, a renamed path, a query parameter that does not exist.
#[test]
fn endpoint_page_lists_exactly_the_admin_routes() {
    let endpoints = endpoints_of(include_str!("../../../../docs/reference/http.md"));
    let names: BTreeSet<String> = endpoints.keys().cloned().collect();
    assert_eq!(names, routed());
    let api = json(include_str!("../../../admin/src/openapi.json"));
    for (route, names) in &endpoints {
        let (method, path) = route.split_once(' ').unwrap();
        let parameters = api["paths"][path][method]["parameters"].as_array().into_iter().flatten();
        let parameters: Vec<&str> = parameters.map(|one| text(&dereferenced(&api, one)["name"])).collect();
        for name in names {
            assert!(parameters.contains(&name.as_str()), "{route} takes no `{name}`: {parameters:?}");
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is not a text"))
}

/// The value itself, or the target of its `$ref`.
fn dereferenced<'a>(api: &'a Value, value: &'a Value) -> &'a Value {
    value["$ref"].as_str().map_or(value, |path| api.pointer(path.trim_start_matches('#')).unwrap())
}

fn add(page: &mut String, api: &Value, name: &str, operation: &Value) {
    write!(page, "\n### `{name}`\n\n{}.", text(&operation["summary"])).unwrap();
    if let Some(more) = operation["description"].as_str() {
        write!(page, " {more}").unwrap();
    }
    page.push('\n');
    let parameters =
        operation["parameters"].as_array().into_iter().flatten().map(|one| dereferenced(api, one));
    let parameters: Vec<&Value> = parameters.filter(|one| one["in"] != "header").collect();
    if !parameters.is_empty() {
        page.push_str("\n| | |\n|---|---|\n");
    }
    for one in parameters {
        writeln!(page, "| `{}` | {} |", text(&one["name"]), text(&one["description"])).unwrap();
    }
    let body = &operation["requestBody"]["content"]["application/json"]["example"];
    if !body.is_null() {
        write!(page, "\nIt takes\n\n    {body}\n").unwrap();
    }
    let answer = &operation["responses"]["200"]["content"]["application/json"]["example"];
    if !answer.is_null() {
        write!(page, "\nIt answers\n\n    {answer}\n").unwrap();
    }
    let others = operation["responses"]
        .as_object()
        .unwrap()
        .iter()
        .filter(|(code, _)| !["200", "304"].contains(&code.as_str()));
    let others: Vec<String> = others.map(|(code, _)| format!("`{code}`")).collect();
    write!(page, "\nProblems: {}\n", others.join(", ")).unwrap();
}
