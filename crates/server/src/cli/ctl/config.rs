//! `hivemind ctl config`: what is in force of the files, and what is wrong with them.

use super::table::{Table, each, moment, plain, text};
use crate::harmless::harmless_lines;
use clap::Args;
use serde_json::Value;

/// What is in force of rules and configuration, and what is wrong with their files
#[derive(Args)]
pub(super) struct Config {}

pub(super) fn shown(body: &Value) -> String {
    let mut table = Table::new(&["part", "state", "reason"]);
    for (name, part) in body.get("components").and_then(Value::as_object).into_iter().flatten() {
        let reason = text(part, "reason");
        table.row([name.clone(), text(part, "state"), reason.lines().next().unwrap_or_default().to_owned()]);
    }
    let is_ready = if text(body, "is_ready") == "true" { "ready" } else { "not ready: no calls should come" };
    let mut shown = format!("{is_ready}\n\n{}", table.without_empty().or("nothing is known of its parts"));
    for (name, of) in [("rules", "rules"), ("configuration", "config")] {
        let files = body.get(of).cloned().unwrap_or_default();
        let path = match text(&files, "path").as_str() {
            "" => "built in".to_owned(),
            path => harmless_lines(path),
        };
        shown += &format!("\n{name}: {path}");
        match moment(&files, "loaded_ms").as_str() {
            "" => {}
            loaded => shown += &format!(", loaded {loaded}"),
        }
        if let Some(count) = files.get("loaded") {
            shown += &format!(", {count} rules of {} domains", text(&files, "domains"));
        }
        let waiting: Vec<String> = each(&files, "needs_restart").map(plain).collect();
        if !waiting.is_empty() {
            shown += &format!("\nnot in force before a restart: {}", harmless_lines(&waiting.join(", ")));
        }
        match text(&files, "last_error").as_str() {
            "" => {}
            error => {
                shown += &format!("\nrefused {}:\n{}", moment(&files, "last_error_ms"), harmless_lines(error))
            }
        }
    }
    shown + "\n"
}
