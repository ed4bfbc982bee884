//! `hivemind ctl version`: the version of the running service.

use super::table::{TextTable, moment, plain};
use clap::Args;
use serde_json::Value;

/// Show the version and start time of the service
#[derive(Args)]
pub(super) struct Version {}

pub(super) fn shown(body: &Value) -> String {
    let mut table = TextTable::new(&["field", "value"]);
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
    table.or("no version reported")
}
