//! Static facts about the process, and `GET /api/v1/version`.

use super::Admin;
use super::reply::ok;
use super::time::millis;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use hivemind_core::{Clock, SystemClock};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Static facts about the process.
#[derive(Debug)]
pub struct About {
    /// Where counters are stored.
    storage: &'static str,
    /// The path of the rules; `None` for the built-in rules.
    pub(super) rules: Option<PathBuf>,
    /// The path of the configuration.
    pub(super) configuration: Option<PathBuf>,
}

impl About {
    pub fn new(storage: &'static str, rules: Option<PathBuf>, configuration: Option<PathBuf>) -> Self {
        Self { storage, rules, configuration }
    }
}

pub(super) fn routes() -> Router<Admin> {
    Router::new().route("/api/v1/version", get(version))
}

async fn version(State(admin): State<Admin>) -> Response {
    ok(&shown(&admin))
}

/// The version, storage and uptime of the process.
pub(super) fn shown(admin: &Admin) -> Value {
    let service = &admin.service.0;
    let (started, options) = (service.stats().started, service.options());
    json!({
        "version": env!("CARGO_PKG_VERSION"),
        "storage": admin.about.storage,
        "node": admin.mesh.as_ref().map(|mesh| mesh.name()),
        "started_ms": millis(started),
        "uptime_ms": u64::try_from(SystemClock.now().since(started).as_millis()).unwrap_or(u64::MAX),
        "enabled": options.enabled,
        "shadow_mode": options.shadow_mode,
    })
}
