//! `hivemind ctl decisions`: the most recent decisions.

use super::page_args::{PageArgs, with_next};
use super::table::{TextTable, each, is_display_hash, marked, moment, text};
use crate::cli::client::AdminRequest;
use clap::Args;
use hivemind_telemetry::hash_value;
use serde_json::Value;

/// List the most recent decisions, newest first
#[derive(Args)]
pub(super) struct Decisions {
    /// Only refused requests
    #[arg(long, conflicts_with = "allowed")]
    denied: bool,

    /// Only requests that passed
    #[arg(long)]
    allowed: bool,

    /// Only decisions of this domain
    #[arg(long, value_name = "NAME")]
    domain: Option<String>,

    /// Only decisions with an entry of this key
    #[arg(long, value_name = "KEY")]
    key: Option<String>,

    /// Only decisions with an entry of this value, or of this displayed hash. Only the hash is sent, because proxies
    /// log URLs; for a truncated value give the part that is shown
    #[arg(long, value_name = "VALUE")]
    value: Option<String>,

    #[command(flatten)]
    page: PageArgs,
}

impl Decisions {
    pub(super) fn question(&self) -> AdminRequest {
        let outcome = self.denied.then_some("denied").or_else(|| self.allowed.then_some("allowed"));
        let question = AdminRequest::get("/api/v1/decisions").with("outcome", outcome);
        let question = question.with("domain", self.domain.as_deref()).with("key", self.key.as_deref());
        let value = self
            .value
            .as_ref()
            .map(|value| if is_display_hash(value) { value.clone() } else { hash_value(value) });
        self.page.of(question.with("value", value.as_deref()))
    }
}

pub(super) fn shown(body: &Value) -> String {
    let mut table =
        TextTable::new(&["time", "by", "outcome", "domain", "descriptor", "hits#", "left#", "rule#"]);
    for decision in each(body, "items") {
        let [frontend, outcome, domain] = ["door", "outcome", "domain"].map(|name| text(decision, name));
        // The response does not say which descriptor was truncated: all are marked.
        let is_cut = text(decision, "is_cut") == "true";
        for one in each(decision, "descriptors") {
            let [hits, left, rule] = ["hits", "remaining", "rule"].map(|name| text(one, name));
            let head = [moment(decision, "t_ms"), frontend.clone(), outcome.clone(), domain.clone()];
            let [time, frontend, outcome, domain] = head;
            table.row([
                time,
                frontend,
                outcome,
                domain,
                marked(one, "entries", is_cut, ""),
                hits,
                left,
                rule,
            ]);
        }
    }
    with_next(table.or("no decisions recorded"), body)
}
