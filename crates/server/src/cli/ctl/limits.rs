//! `hivemind ctl limits`: the gateway's active limits.

use super::page_args::{PageArgs, with_next};
use super::table::{TextTable, each, limit, plain, text};
use crate::cli::client::AdminRequest;
use clap::Args;
use serde_json::Value;

/// List the gateway's active limits, the level that sets each field, and which limits are capped
#[derive(Args)]
#[command(after_long_help = "Examples:
  hivemind ctl limits                     limits of all services
  hivemind ctl limits --search login      limits with this text in their name or path

The columns that end in `by` name the level that sets a field: endpoint, service, platform, or
built_in for a default. If the platform's maximum caps a limit, `instead of` shows the configured
limit.")]
pub(super) struct LimitsArgs {
    /// Only limits with this text in their service, endpoint, methods, path or kind
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,

    #[command(flatten)]
    page: PageArgs,
}

impl LimitsArgs {
    pub(super) fn question(&self) -> AdminRequest {
        self.page.of(AdminRequest::get("/api/v1/limits").with("q", self.search.as_deref()))
    }
}

pub(super) fn shown(body: &Value) -> String {
    let mut table = TextTable::new(&[
        "service",
        "endpoint",
        "kind",
        "limit",
        "instead of",
        "note",
        "requests by",
        "window by",
        "burst by",
        "algorithm by",
        "mode by",
        "dry run by",
    ]);
    for one in each(body, "items") {
        let part = |name: &str| one.get(name).map(limit).unwrap_or_default();
        let by = |name: &str| one.get("from").map(|from| text(from, name)).unwrap_or_default();
        let service = text(one, "service");
        table.row([
            if service.is_empty() { "(all others)".to_owned() } else { service },
            endpoint(one),
            text(one, "kind"),
            part("limit"),
            if text(one, "capped") == "true" { part("configured") } else { String::new() },
            note(one),
            by("requests"),
            by("window"),
            by("burst"),
            by("algorithm"),
            by("mode"),
            by("dry_run"),
        ]);
    }
    with_next(table.without_empty().or("no gateway runs there, or no limit matches"), body)
}

/// `POST,PUT /login`; empty for a limit of the whole service.
fn endpoint(of: &Value) -> String {
    let Some(endpoint) = of.get("endpoint").filter(|endpoint| endpoint.is_object()) else {
        return String::new();
    };
    let methods: Vec<String> = each(endpoint, "methods").map(plain).collect();
    let methods = if methods.is_empty() { String::new() } else { methods.join(",") + " " };
    methods + &text(endpoint, "path")
}

/// Deviations from plain refusal: dry run, delay.
fn note(of: &Value) -> String {
    let is_dry = text(of, "dry_run") == "true";
    let delay = of.get("delay_after").and_then(Value::as_u64).map(|after| format!("delays after {after}"));
    let notes = is_dry.then(|| "dry run".to_owned()).into_iter().chain(delay);
    notes.collect::<Vec<_>>().join(", ")
}
