//! `GET /api/v1/stats`: totals and latencies since startup.

use super::Admin;
use super::reply::ok;
use super::rules::RuleVisibility;
use super::time::millis;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use hivemind_core::{Clock, SystemClock};
use serde_json::{Map, Value, json};
use std::cmp::Reverse;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// The maximum number of rules in a response, because the event stream sends all of it every second.
const MOST_RULES: usize = 200;

/// The number of a rule, and its hits that passed and were refused.
type Met = (usize, (u64, u64));

/// Returns a current count.
pub type Gauge = Box<dyn Fn() -> usize + Send + Sync>;

/// Capacities and their use.
pub struct Room {
    pub max_keys: usize,
    /// Open connections, by purpose.
    pub connections: Vec<(&'static str, Gauge)>,
    /// Whether several files may have rules for one domain.
    pub merge_domains: bool,
    /// Permits for simulations.
    pub simulations: Arc<Semaphore>,
}

impl Room {
    /// More of them would take cores from the request path.
    pub const MOST_SIMULATIONS: usize = 2;
}

pub(super) fn routes() -> Router<Admin> {
    Router::new().route("/api/v1/stats", get(stats))
}

async fn stats(State(admin): State<Admin>) -> Response {
    ok(&body(&admin))
}

/// Counters since startup; rates are differences of two responses.
pub(super) fn body(admin: &Admin) -> Value {
    let (service, now) = (&admin.service.0, SystemClock.now());
    let stats = service.stats();
    let connections = admin.room.connections.iter().map(|(of, open)| ((*of).to_owned(), json!(open())));
    let occupancy = service.storage().memory().occupancy();
    // In a mesh, shared counters are in its own table, and only the others in memory.
    let shared = admin.mesh.as_ref().map_or(0, |mesh| mesh.keys());
    let (each_rule, left_out) = each_rule(admin);
    let mut members = Map::new();
    let of_series = stats.series.overview().map(|(name, value)| (name.to_owned(), value));
    members.extend(of_series);
    members.extend([
        ("t_ms".to_owned(), json!(millis(now))),
        ("uptime_ms".to_owned(), json!(millis(now).saturating_sub(millis(stats.started)))),
        ("each_rule".to_owned(), each_rule.into()),
        ("rules_left_out".to_owned(), json!(left_out)),
        // Requests are not counted if no metrics are read.
        ("is_counted".to_owned(), json!(service.counts())),
        ("keys_in_memory".to_owned(), json!(occupancy.keys + shared)),
        ("keys_evicted".to_owned(), json!(occupancy.evicted)),
        ("keys_overflowed".to_owned(), json!(occupancy.overflowed)),
        ("max_keys".to_owned(), json!(admin.room.max_keys)),
        ("connections".to_owned(), Value::Object(connections.collect())),
    ]);
    Value::Object(members)
}

/// Hits of each rule that passed and were refused (two rules of one key are one metric series, but two rules here),
/// and the number of omitted rules. Credentials are always hashes: the event stream is created once for all, and must
/// agree with this response.
fn each_rule(admin: &Admin) -> (Vec<Value>, usize) {
    let visibility = RuleVisibility { root: None, hides: true };
    admin.service.0.with_ruleset(|ruleset, hits| {
        let limiting = ruleset.rules.declarations().enumerate().filter(|(_, (.., rule))| rule.is_some());
        let met = limiting.map(|(number, _)| (number, hits(number)));
        let (most, left_out) = most(met.filter(|(_, hits)| *hits != (0, 0)).collect());
        let shown = |(number, (ok, over_limit)): Met| {
            let (domain, path, _) = ruleset.rules.declaration(number)?;
            let path = visibility.path(path);
            Some(json!({"id": number, "domain": domain, "path": path, "ok": ok, "over_limit": over_limit}))
        };
        (most.into_iter().filter_map(shown).collect(), left_out)
    })
}

/// The rules with the most refusals, then the busiest: an operator looks for a quiet rule that refuses everything.
/// Also returns the number of omitted rules.
fn most(mut met: Vec<Met>) -> (Vec<Met>, usize) {
    met.sort_unstable_by_key(|(number, (ok, over))| (Reverse((*over, ok.saturating_add(*over))), *number));
    let left_out = met.len().saturating_sub(MOST_RULES);
    met.truncate(MOST_RULES);
    (met, left_out)
}

#[cfg(test)]
mod tests {
    use super::{MOST_RULES, most};

    // Fails when the busiest rules come first.
    #[test]
    fn refusing_rules_rank_before_busy_rules() {
        let busy = (0..MOST_RULES + 5).map(|number| (number, (1_000, 0)));
        let quiet = [(900, (0, 3)), (901, (5, 3)), (902, (0, 7))];
        let (listed, left_out) = most(busy.chain(quiet).collect());
        assert_eq!(listed[..4], [quiet[2], quiet[1], quiet[0], (0, (1_000, 0))]);
        assert_eq!((listed.len(), left_out), (MOST_RULES, 8));
        assert_eq!(most(vec![(1, (1, 0))]), (vec![(1, (1, 0))], 0));
    }
}
