//! `POST /api/v1/explain`: which rule answers a descriptor, and why. It spends nothing.

use super::Admin;
use super::descriptor::RawDescriptor;
use super::reply::{ok, read};
use super::rules;
use crate::explained::Explained;
use crate::ruleset::Ruleset;
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use axum::routing::post;
use hivemind_core::rules::{Considered, WayEnd};
use serde_json::{Value, json};

pub(super) fn routes() -> Router<Admin> {
    Router::new().route("/api/v1/explain", post(explain))
}

async fn explain(State(admin): State<Admin>, body: Bytes) -> Response {
    let asked = match read::<RawDescriptor>(&body).and_then(RawDescriptor::checked) {
        Ok(asked) => asked,
        Err(answer) => return answer,
    };
    let entries = asked.entries();
    admin.service.0.with_ruleset(|ruleset, hits| {
        let explained = Explained::new(ruleset, &asked.domain, &entries);
        ok(&json!({
            "steps": steps(&explained),
            "end": end(ruleset, hits, &explained.explanation.end),
            "text": explained.to_string(),
        }))
    })
}

fn steps(explained: &Explained<'_>) -> Vec<Value> {
    let with_entries = explained.entries.iter().zip(&explained.explanation.steps);
    let one = |((key, value), step): (&(&str, &str), &hivemind_core::rules::ExplainedEntry)| {
        let considered = step.considered.iter().map(|(rule, outcome)| {
            let outcome = match outcome {
                Considered::Taken => "taken",
                Considered::DoesNotMatch => "does_not_match",
                Considered::PassedOver => "passed_over",
            };
            json!({"rule": rule, "outcome": outcome})
        });
        let considered: Vec<Value> = considered.collect();
        json!({"entry": {"key": key, "value": value}, "considered": considered})
    };
    with_entries.map(one).collect()
}

fn end(ruleset: &Ruleset, hits: &dyn Fn(usize) -> (u64, u64), end: &WayEnd<'_>) -> Value {
    let (kind, rule) = match end {
        WayEnd::UnknownDomain => ("unknown_domain", Value::Null),
        WayEnd::NoMatch(_) => ("no_match", Value::Null),
        WayEnd::NoLimit => ("no_limit", Value::Null),
        WayEnd::Rule(number, _) => ("rule", rules::shown(ruleset, hits, *number)),
    };
    json!({"kind": kind, "rule": rule})
}
