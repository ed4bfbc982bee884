//! `hivemind ctl rules`: the active rules.

use super::page_args::{PageArgs, with_next};
use super::table::{TextTable, each, entries, limit, text};
use crate::cli::client::AdminRequest;
use clap::Args;
use serde_json::Value;

/// List the active rules with file, line, and how many requests passed and were refused
#[derive(Args)]
pub(super) struct RulesArgs {
    /// Only rules of this domain
    #[arg(long, value_name = "NAME")]
    domain: Option<String>,

    /// Only rules with this text in their domain, keys, values or name
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,

    #[command(flatten)]
    page: PageArgs,
}

impl RulesArgs {
    pub(super) fn question(&self) -> AdminRequest {
        let question = AdminRequest::get("/api/v1/rules").with("domain", self.domain.as_deref());
        self.page.of(question.with("q", self.search.as_deref()))
    }
}

pub(super) fn shown(body: &Value) -> String {
    let mut table = TextTable::new(&["id#", "domain", "rule", "limit", "mode", "passed#", "over#", "where"]);
    for rule in each(body, "items") {
        let limits: Vec<String> = each(rule, "limits").map(limit).collect();
        let limits = match limits.as_slice() {
            [] if text(rule, "unlimited") == "true" => "unlimited".to_owned(),
            [] => "no limit".to_owned(),
            limits => limits.join(", "),
        };
        table.row([
            text(rule, "id"),
            text(rule, "domain"),
            entries(rule, "path"),
            limits,
            text(rule, "mode"),
            text(rule, "ok"),
            text(rule, "over_limit"),
            format!("{}:{}", text(rule, "file"), text(rule, "line")),
        ]);
    }
    with_next(table.or("no rules, or no rule matches"), body)
}
