//! `hivemind ctl version`: what runs there.

use super::table::{Table, moment, plain};
use clap::Args;
use serde_json::Value;

/// What runs there, and since when
#[derive(Args)]
pub(super) struct Version {}

pub(super) fn shown(body: &Value) -> String {
    let mut table = Table::new(&["what", "is"]);
    for (name, value) in body.as_object().into_iter().flatten() {
        match name.as_str() {
            "started_ms" => table.row(["started".to_owned(), moment(body, "started_ms")]),
            "uptime_ms" => {
                let seconds = value.as_u64().unwrap_or_default() / 1_000;
                table.row(["up for".to_owned(), format!("{seconds} s")]);
            }
            _ => table.row([name.clone(), plain(value)]),
        }
    }
    table.or("nothing")
}
