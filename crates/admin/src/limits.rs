//! `GET /api/v1/limits`: the gateway's active limits, with the level that sets each field and the caps.

use super::page_query::{ListPosition, PageQuery};
use super::query::Query;
use super::reply::{no_question, ok};
use super::{Admin, limit};
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::response::Response;
use axum::routing::get;
use hivemind_tower::operator::EffectiveLimit;
use serde_json::{Value, json};
use std::hash::{DefaultHasher, Hash, Hasher};

pub(super) fn routes() -> Router<Admin> {
    Router::new().route("/api/v1/limits", get(list))
}

async fn list(State(admin): State<Admin>, RawQuery(query): RawQuery) -> Response {
    let limits = admin.gateway.map(|gateway| gateway.effective_limits()).unwrap_or_default();
    let page =
        Query::read(query.as_deref(), &["q", PageQuery::NAMES[0], PageQuery::NAMES[1]]).and_then(|query| {
            let page = PageQuery::of(&query)?;
            let list = list_of(&limits);
            let sought = query.get("q").unwrap_or_default().to_lowercase();
            let from = limits.iter().enumerate().skip(page.first_of(list)?);
            let from = from.filter(|(_, limit)| has(&sought, limit));
            Ok(page.of_items(from.map(|(number, limit)| (ListPosition { list, number }, shown(limit)))))
        });
    page.map_or_else(|detail| no_question(&detail), |page| ok(&page))
}

/// Identifies a list: changes if an index means another limit.
fn list_of(limits: &[EffectiveLimit]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for effective in limits {
        (&effective.service, &effective.endpoint, effective.kind.name()).hash(&mut hasher);
    }
    hasher.finish()
}

/// Whether a lower-case text occurs in the names of a limit.
fn has(sought: &str, effective: &EffectiveLimit) -> bool {
    let names =
        [effective.service.as_deref().unwrap_or_default(), &effective.endpoint, effective.kind.name()];
    let mut names = names.into_iter().chain(effective.patterns.iter().map(String::as_str));
    names.any(|name| name.to_lowercase().contains(sought))
}

fn shown(effective: &EffectiveLimit) -> Value {
    let origin = &effective.origin;
    json!({
        "service": effective.service,
        "endpoint": endpoint(effective),
        "kind": effective.kind.name(),
        "limit": limit::shown(&effective.limit),
        "configured": limit::shown(&effective.configured),
        "capped": effective.is_capped(),
        "from": {
            "requests": origin.requests.name(),
            "window": origin.window.name(),
            "burst": origin.burst.name(),
            "algorithm": origin.algorithm.name(),
            "mode": origin.mode.name(),
            "dry_run": origin.dry_run.name(),
        },
        "dry_run": effective.dry_run,
        "delay_after": effective.delay_after,
    })
}

/// `null` for the limit of a whole service.
fn endpoint(effective: &EffectiveLimit) -> Value {
    // A pattern is a path, with or without a method in front.
    let parts =
        effective.patterns.iter().map(|pattern| pattern.split_once(' ').unwrap_or(("", pattern.as_str())));
    let methods: Vec<&str> =
        parts.clone().map(|(method, _)| method).filter(|method| !method.is_empty()).collect();
    let path = parts.map(|(_, path)| path.trim_start()).next();
    path.map_or(Value::Null, |path| json!({"name": effective.endpoint, "methods": methods, "path": path}))
}
