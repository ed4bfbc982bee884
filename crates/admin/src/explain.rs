//! `POST /api/v1/explain`: which rule matches a descriptor, and why. It spends nothing.

use super::Admin;
use super::descriptor::RawKey;
use super::guard::Caller;
use super::reply::{ok, read};
use super::rules::{self, RuleVisibility};
use super::time::millis;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use axum::{Extension, Router};
use hivemind_core::rules::{CandidateOutcome, ExplanationEnd};
use hivemind_core::{Clock, SystemClock};
use hivemind_engine::explanation_text::ExplanationText;
use hivemind_engine::ruleset::Ruleset;
use hivemind_telemetry::redact;
use serde_json::{Value, json};

pub(super) fn routes() -> Router<Admin> {
    Router::new().route("/api/v1/explain", post(explain))
}

async fn explain(
    State(admin): State<Admin>,
    Extension(caller): Extension<Caller>,
    body: Bytes,
) -> Result<Response, Response> {
    let name = read::<RawKey>(&body)?.name()?;
    let entries = name.entries();
    // The charged name, as for requests and lookups: it differs if the values of a wildcard share a counter.
    let charged = admin.counters_of(&name).name;
    let blocked = charged.with_parts(|parts| admin.storage.blocks().until(parts, SystemClock.now()));
    // Anonymous callers may see the rules, but not the blocks.
    let blocked = blocked.filter(|_| caller.sees_clients).map(millis);
    let visibility = admin.visibility_for(&caller);
    Ok(admin.service.0.with_ruleset(|ruleset, hits| {
        let mut explained = ExplanationText::new(ruleset, name.domain(), &entries).below(visibility.root);
        if visibility.hides {
            hide(&mut explained);
        }
        ok(&json!({
            "steps": steps(&explained),
            "end": end((ruleset, visibility), hits, &explained.explanation.end, blocked),
            "text": explained.to_string(),
        }))
    }))
}

/// Replaces credentials in rules by hashes. The requested descriptor belongs to the caller, and stays.
fn hide(explained: &mut ExplanationText<'_>) {
    for ((key, _), step) in explained.entries.iter().zip(&mut explained.explanation.steps) {
        for (rule, _) in &mut step.candidates {
            let value = rule.strip_prefix(key).and_then(|rest| rest.strip_prefix('='));
            if let Some((hidden, true)) = value.map(|value| redact(key, value)) {
                *rule = format!("{key}={hidden}");
            }
        }
    }
}

fn steps(explained: &ExplanationText<'_>) -> Vec<Value> {
    let with_entries = explained.entries.iter().zip(&explained.explanation.steps);
    let one = |((key, value), step): (&(&str, &str), &hivemind_core::rules::ExplainedEntry)| {
        let considered = step.candidates.iter().map(|(rule, outcome)| {
            let outcome = match outcome {
                CandidateOutcome::Taken => "taken",
                CandidateOutcome::DoesNotMatch => "does_not_match",
                CandidateOutcome::PassedOver => "passed_over",
            };
            json!({"rule": rule, "outcome": outcome})
        });
        let considered: Vec<Value> = considered.collect();
        json!({"entry": {"key": key, "value": value}, "considered": considered})
    };
    with_entries.map(one).collect()
}

fn end(
    ruleset: (&Ruleset, RuleVisibility<'_>),
    hits: &dyn Fn(usize) -> (u64, u64),
    end: &ExplanationEnd<'_>,
    blocked_until_ms: Option<u64>,
) -> Value {
    let (kind, rule) = match end {
        ExplanationEnd::UnknownDomain => ("unknown_domain", Value::Null),
        ExplanationEnd::NoMatch(_) => ("no_match", Value::Null),
        ExplanationEnd::NoLimit => ("no_limit", Value::Null),
        ExplanationEnd::Rule(number, _) => ("rule", rules::shown(ruleset, hits, *number)),
    };
    json!({"kind": kind, "rule": rule, "blocked_until_ms": blocked_until_ms})
}
