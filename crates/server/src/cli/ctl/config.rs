//! `hivemind ctl config`: the state of the loaded files, and what is wrong with them.

use super::table::{TextTable, each, moment, plain, text};
use clap::Args;
use hivemind_tls::escape::escape_lines;
use serde_json::Value;

/// Show the state of rules and configuration, and what is wrong with their files
#[derive(Args)]
pub(super) struct Config {}

pub(super) fn shown(body: &Value) -> String {
    let mut table = TextTable::new(&["part", "state", "reason"]);
    for (name, part) in body.get("components").and_then(Value::as_object).into_iter().flatten() {
        let reason = text(part, "reason");
        table.row([name.clone(), text(part, "state"), reason.lines().next().unwrap_or_default().to_owned()]);
    }
    let is_ready = if text(body, "is_ready") == "true" {
        "ready"
    } else {
        "not ready: this node should receive no traffic"
    };
    let mut shown = format!("{is_ready}\n\n{}", table.without_empty().or("no components reported"));
    for (name, of) in [("rules", "rules"), ("configuration", "config")] {
        let files = body.get(of).cloned().unwrap_or_default();
        let path = match text(&files, "path").as_str() {
            "" => "built in".to_owned(),
            path => escape_lines(path),
        };
        let (loaded, error) = (moment(&files, "loaded_ms"), text(&files, "last_error"));
        let loaded = if loaded.is_empty() { loaded } else { format!(", loaded {loaded}") };
        let count = files
            .get("loaded")
            .map(|count| format!(", {count} rules of {} domains", text(&files, "domains")));
        let error = if error.is_empty() {
            error
        } else {
            format!("\nrejected {}:\n{}", moment(&files, "last_error_ms"), escape_lines(&error))
        };
        let waiting: Vec<String> = each(&files, "needs_restart").map(plain).collect();
        let waiting = if waiting.is_empty() {
            String::new()
        } else {
            format!("\nactive after a restart: {}", escape_lines(&waiting.join(", ")))
        };
        shown += &["\n", name, ": ", &path, &loaded, &count.unwrap_or_default(), &waiting, &error].concat();
    }
    shown + "\n"
}
