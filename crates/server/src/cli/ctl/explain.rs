//! `hivemind ctl explain`: which of the rules in force answers a descriptor, and why.

use super::key::descriptor;
use super::table::{moment, text};
use crate::cli::client::Question;
use crate::harmless::harmless_lines;
use clap::Args;
use serde_json::Value;

/// Say which of the rules in force answers a descriptor, and why
#[derive(Args)]
pub(super) struct Explain {
    /// The domain that is asked for
    #[arg(value_name = "DOMAIN")]
    domain: String,

    /// The entries of the descriptor, in order
    #[arg(required = true, value_name = "KEY=VALUE")]
    entries: Vec<String>,
}

impl Explain {
    pub(super) fn question(&self) -> anyhow::Result<Question> {
        let body = Value::Object(descriptor(&self.domain, &self.entries)?);
        Ok(Question::post("/api/v1/explain", Some(body)))
    }
}

pub(super) fn shown(body: &Value) -> String {
    // The text is of the rules alone.
    let blocked = body.get("end").map(|end| moment(end, "blocked_until_ms")).unwrap_or_default();
    let blocked = if blocked.is_empty() { blocked } else { format!("blocked until {blocked}\n") };
    blocked + &harmless_lines(&text(body, "text"))
}
