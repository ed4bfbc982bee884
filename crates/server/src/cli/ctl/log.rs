//! `hivemind ctl log`: log levels.

use super::table::{TextTable, text};
use crate::cli::client::AdminRequest;
use clap::Args;
use http::Method;
use serde_json::{Value, json};

/// Show the log level; with --level, change it until a restart
#[derive(Args)]
pub(super) struct LogArgs {
    /// off, error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL")]
    level: Option<String>,
}

impl LogArgs {
    pub(super) fn question(&self) -> AdminRequest {
        match &self.level {
            None => AdminRequest::get("/api/v1/log"),
            Some(level) => {
                let change = Some(json!({"level": level}));
                AdminRequest { method: Method::PUT, ..AdminRequest::post("/api/v1/log", change) }
            }
        }
    }
}

pub(super) fn shown(body: &Value) -> String {
    let mut table = TextTable::new(&["setting", "value"]);
    table.row(["level".to_owned(), text(body, "level")]);
    for (module, level) in body.get("levels").and_then(Value::as_object).into_iter().flatten() {
        table.row([format!("level of {module}"), super::table::plain(level)]);
    }
    for (name, value) in body.get("decisions").and_then(Value::as_object).into_iter().flatten() {
        table.row([format!("decisions.{name}"), super::table::plain(value)]);
    }
    table.or("no log settings reported")
}
