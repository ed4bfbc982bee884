//! `hivemind ctl keys top`: the keys with the most refusals or the highest spending.

use super::table::{TextTable, each, marked, text};
use crate::cli::client::AdminRequest;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value;

/// Statistics of client keys
#[derive(Args)]
pub(super) struct KeysArgs {
    #[command(subcommand)]
    command: KeysCommand,
}

#[derive(Subcommand)]
enum KeysCommand {
    Top(TopArgs),
}

/// List the keys that were refused most, or spent most, in the last minutes
#[derive(Args)]
struct TopArgs {
    /// The sort order
    #[arg(long, value_enum, default_value_t = By::Denied)]
    by: By,

    /// Number of keys, up to 1000
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

#[derive(Clone, Copy, ValueEnum)]
enum By {
    Denied,
    Spent,
}

impl KeysArgs {
    pub(super) fn question(&self) -> AdminRequest {
        let KeysCommand::Top(TopArgs { by, limit }) = &self.command;
        let by = match by {
            By::Denied => "denied",
            By::Spent => "spent",
        };
        AdminRequest::get("/api/v1/top").with("by", Some(by)).with("limit", Some(&limit.to_string()))
    }
}

pub(super) fn shown(body: &Value) -> String {
    let mut table = TextTable::new(&["count#", "domain", "key"]);
    for key in each(body, "keys") {
        // The count may include hits of other keys; the error bound shows how many.
        let doubt = key.get("error").and_then(Value::as_u64).filter(|error| *error > 0);
        let doubt = doubt.map(|error| format!(" (overcounted by at most {error})")).unwrap_or_default();
        let named = marked(key, "entries", text(key, "is_cut") == "true", &doubt);
        table.row([text(key, "count"), text(key, "domain"), named]);
    }
    table.or("no keys in the last minutes")
}
