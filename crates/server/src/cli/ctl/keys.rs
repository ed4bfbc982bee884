//! `hivemind ctl keys top`: who is refused most, and who spends most.

use super::table::{Table, each, marked, text};
use crate::cli::client::Question;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::Value;

/// The keys of clients
#[derive(Args)]
pub(super) struct Keys {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Top(Top),
}

/// Those that were refused most, or spent most, in the last minutes
#[derive(Args)]
struct Top {
    /// By what they are put in order
    #[arg(long, value_enum, default_value_t = By::Denied)]
    by: By,

    /// How many, up to 1000
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

#[derive(Clone, Copy, ValueEnum)]
enum By {
    Denied,
    Spent,
}

impl Keys {
    pub(super) fn question(&self) -> Question {
        let Command::Top(Top { by, limit }) = &self.command;
        let by = match by {
            By::Denied => "denied",
            By::Spent => "spent",
        };
        Question::get("/api/v1/top").with("by", Some(by)).with("limit", Some(&limit.to_string()))
    }
}

pub(super) fn shown(body: &Value) -> String {
    let mut table = Table::new(&["count#", "domain", "key"]);
    for key in each(body, "keys") {
        // What may be others' is told, so that nobody is blamed for it.
        let doubt = key.get("error").and_then(Value::as_u64).filter(|error| *error > 0);
        let doubt = doubt.map(|error| format!(" (at most {error} too many)")).unwrap_or_default();
        let named = marked(key, "entries", text(key, "is_cut") == "true", &doubt);
        table.row([text(key, "count"), text(key, "domain"), named]);
    }
    table.or("nobody in the last minutes")
}
