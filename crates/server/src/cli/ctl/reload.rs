//! `hivemind ctl reload`: reloads rules, configuration, certificates and keys.

use super::table::each;
use clap::Args;
use hivemind_tls::escape::escape_lines;
use serde_json::Value;

/// Reload rules, configuration, certificates and keys: exit 1 with everything that is wrong
#[derive(Args)]
pub(super) struct Reload {}

pub(super) fn shown(body: &Value) -> String {
    let mut shown = String::new();
    for (what, outcome) in body.as_object().into_iter().flatten() {
        shown += &[what, ": loaded\n"].concat();
        for note in each(outcome, "notes").filter_map(Value::as_str) {
            shown += &(escape_lines(note) + "\n");
        }
    }
    if shown.is_empty() { "no files to load\n".to_owned() } else { shown }
}
