//! `hivemind ctl explain`: which active rule matches a descriptor, and why.

use super::key_selection::KeySelection;
use super::table::{moment, text};
use crate::cli::client::AdminRequest;
use clap::Args;
use hivemind_tls::escape::escape_lines;
use serde_json::Value;

/// Explain which active rule matches a descriptor, and why
#[derive(Args)]
pub(super) struct CtlExplainArgs {
    #[command(flatten)]
    who: KeySelection,
}

impl CtlExplainArgs {
    pub(super) fn question(&self) -> anyhow::Result<AdminRequest> {
        let body = Value::Object(self.who.body(&self.who.entries()?));
        Ok(AdminRequest::post("/api/v1/explain", Some(body)))
    }
}

pub(super) fn shown(body: &Value) -> String {
    // The text describes only the rules, so the block is added here.
    let blocked = body.get("end").map(|end| moment(end, "blocked_until_ms")).unwrap_or_default();
    let blocked = if blocked.is_empty() { blocked } else { format!("blocked until {blocked}\n") };
    blocked + &escape_lines(&text(body, "text"))
}
