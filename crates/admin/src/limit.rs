//! Limits and modes in API responses.

use super::time::period_ms;
use hivemind_core::Limit;
use hivemind_core::store::Mode;
use serde_json::{Map, Value, json};

pub(super) fn shown(limit: &Limit) -> Value {
    Value::Object(members(limit))
}

/// The members of a limit, for responses that add more.
pub(super) fn members(limit: &Limit) -> Map<String, Value> {
    let members = [
        ("algorithm", json!(limit.algorithm())),
        ("requests", json!(limit.requests())),
        ("period_ms", period_ms(limit.period())),
        ("burst", json!(limit.burst())),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

pub(super) const fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Enforce => "enforce",
        Mode::Shadow => "shadow",
        Mode::Quota => "quota",
    }
}
