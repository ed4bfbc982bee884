//! `GET /api/v1/config`: the state of the loaded files, and their problems as the command line prints them.

use super::Admin;
use super::reply::ok;
use super::time::millis;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use hivemind_engine::health::{Component, Files};
use serde_json::{Map, Value, json};
use std::path::Path;

pub(super) fn routes() -> Router<Admin> {
    Router::new().route("/api/v1/config", get(config))
}

async fn config(State(admin): State<Admin>) -> Response {
    ok(&shown(&admin))
}

/// The state of rules, configuration and components.
pub(super) fn shown(admin: &Admin) -> Value {
    let health = &admin.health;
    let [of_rules, of_configuration] = health.files();
    let (loaded, domains) =
        admin.service.0.with_rules(|rules| (rules.declarations().count(), rules.domains().count()));
    let mut rules = files(admin.about.rules.as_deref(), &of_rules);
    rules.extend([("loaded".to_owned(), json!(loaded)), ("domains".to_owned(), json!(domains))]);
    let mut configuration = files(admin.about.configuration.as_deref(), &of_configuration);
    configuration.insert("needs_restart".to_owned(), json!(health.needing_restart()));
    json!({
        "is_ready": health.is_ready(),
        "components": Component::shown(&health.components()),
        "rules": rules,
        "config": configuration,
    })
}

fn files(path: Option<&Path>, files: &Files) -> Map<String, Value> {
    let (error, since) = files.refused.as_ref().map(|(error, since)| (error, millis(*since))).unzip();
    let members = [
        ("path", json!(path.map(|path| path.display().to_string()))),
        ("last_error", json!(error)),
        ("last_error_ms", json!(since)),
        ("loaded_ms", json!(files.loaded.map(millis))),
    ];
    members.map(|(name, value)| (name.to_owned(), value)).into_iter().collect()
}
