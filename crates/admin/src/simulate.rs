//! `POST /api/v1/simulate`: replays recent decisions, or a log, under the active rules and under other rules. Both
//! sides start with empty counters, so that only the rules make a difference.

mod rule_values;
#[cfg(test)]
mod tests;
mod time_limit;
mod traffic;

use super::Admin;
use super::bounds::{BodyError, Held, PASSED_OVER};
use super::object::Object;
use super::reply::{not_now, ok, problem, problem_with, read, senseless};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use hivemind_core::Rules;
use hivemind_engine::replay::{Both, Comparison, Total};
use hivemind_engine::rule_files::{Cancellation, RuleBounds, RuleTexts};
use hivemind_telemetry::redacted_entries;
use http_body::Body;
use rule_values::RuleValues;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use time_limit::TimeLimit;
use tokio::sync::oneshot;
use tokio::time::timeout;
use traffic::{RawSource, TrafficSource};

pub(super) const PATH: &str = "/api/v1/simulate";

/// Time limit for reading the rules and deciding.
const WITHIN: Duration = Duration::from_secs(10);
/// Time limit for waiting for another simulation.
const WAITS: Duration = Duration::from_secs(12);
/// Lower priority than the request path, but not the lowest: on a busy machine it would never finish.
const NICE: i32 = 5;
/// Maximum body size.
const LARGEST: usize = 8 << 20;
/// Maximum number of rule files.
const MOST_FILES: usize = 256;
const LONGEST_NAME: usize = 255;
/// Counters per side.
const MOST_COUNTERS: usize = 100_000;
/// Keys in the response.
const SHOWN: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)] // A misspelled key must not be ignored.
struct RawSimulation {
    rules: Vec<Object<RawFile>>,
    source: Object<RawSource>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    name: String,
    text: String,
}

/// Why a simulation failed.
enum SimulationError {
    /// The body is invalid.
    Answer(Box<Response>),
    /// All problems of the rules, as the command line prints them.
    Rules(String),
    Senseless(String),
    /// Reading the rules used up the time limit.
    TooSlow,
    /// The worker thread has died.
    Lost,
}

pub(super) fn routes() -> Router<Admin> {
    Router::new().route("/api/v1/simulate", post(simulate)) // The same as `PATH`, written out like all routes.
}

async fn simulate(State(admin): State<Admin>, request: Request) -> Response {
    // A body whose declared length is too large need not be sent.
    let is_too_large = request.body().size_hint().lower() > (LARGEST * PASSED_OVER) as u64;
    let gathered = if is_too_large {
        Err(BodyError::TooLarge)
    } else {
        admin.bounds.gather(request.into_body(), LARGEST).await
    };
    let (body, held) = match gathered {
        Ok(gathered) => gathered,
        Err(why) => {
            return why
                .answer(&format!("A simulation may have at most {LARGEST} bytes; send a part of the log."));
        }
    };
    // After the body: a slow client must not hold a permit.
    let Ok(place) = Arc::clone(&admin.room.simulations).try_acquire_owned() else {
        return not_now("One simulation runs and another waits; retry in a moment.");
    };
    let turn = match admin.bounds.simulation.take(WAITS).await {
        Ok(turn) => turn,
        Err(not_now) => return not_now,
    };
    let cancellation = Cancellation::default();
    // A caller that disconnects, or reaches the time limit of requests, drops this future.
    let _cancelled_without_caller = cancellation.set_on_drop();
    let time_limit = TimeLimit::new(WITHIN, cancellation.clone());
    let simulation = apart((place, turn), move || {
        // Here, and not on a thread that serves requests: 8 MB of JSON take long.
        let raw = read(&body).map_err(|answer| SimulationError::Answer(Box::new(answer)))?;
        drop((body, held));
        simulated(&admin, raw, time_limit)
    });
    let simulated = within(WITHIN, &cancellation, simulation).await;
    match simulated.unwrap_or(Err(SimulationError::Lost)) {
        Ok(body) => ok(&body),
        Err(refused) => refused.answer(),
    }
}

/// Sets the flag after the time limit. The computation then returns soon, with what it has.
async fn within<T>(limit: Duration, cancellation: &Cancellation, computed: impl Future<Output = T>) -> T {
    let mut computed = pin!(computed);
    if let Ok(computed) = timeout(limit, &mut computed).await {
        return computed;
    }
    cancellation.set();
    computed.await
}

/// Runs a function on its own thread with low priority. The thread holds its permits until it ends, even if the
/// caller disconnects.
async fn apart<T: Send + 'static>(
    places: (Held, Held),
    what: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, result) = oneshot::channel();
    let thread = std::thread::Builder::new().name("simulation".to_owned()).spawn(move || {
        // If this fails, the thread has normal priority.
        let _ = rustix::process::nice(NICE);
        let _ = sender.send(what()); // The caller may have disconnected.
        drop(places);
    });
    // Without a thread, the sender is dropped too.
    drop(thread);
    result.await.ok()
}

impl SimulationError {
    fn answer(self) -> Response {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        match self {
            Self::Answer(answer) => *answer,
            Self::Rules(errors) => {
                let members = Map::from_iter([("errors".to_owned(), json!(errors))]);
                let detail = "The rules are invalid; `errors` lists place, cause and remedy.";
                problem_with(status, "Invalid rules", detail, members)
            }
            Self::Senseless(detail) => senseless(&detail),
            Self::TooSlow => senseless(&format!(
                "Reading the rules took longer than the {} s of a simulation; send fewer rules.",
                WITHIN.as_secs()
            )),
            Self::Lost => problem(
                StatusCode::INTERNAL_SERVER_ERROR,
                "Not simulated",
                "The service log may contain the cause.",
            ),
        }
    }
}

fn simulated(admin: &Admin, raw: RawSimulation, time_limit: TimeLimit) -> Result<Value, SimulationError> {
    let service = &admin.service.0;
    let then = rules(raw.rules, admin.room.merge_domains, &time_limit);
    if time_limit.is_over() {
        return Err(SimulationError::TooSlow);
    }
    let then = then?;
    let source = TrafficSource::new(raw.source.0, &then).map_err(SimulationError::Senseless)?;
    let rules = Both { now: service.with_rules(Rules::clone), then };
    let named = matches!(source, TrafficSource::Recent).then(|| RuleValues::of([&rules.now, &rules.then]));
    let mut comparison = Comparison::new(rules, MOST_COUNTERS, service.on_refusal());
    let mut notes = match source {
        TrafficSource::Recent => {
            let ring = &service.stats().ring;
            if !ring.is_on() {
                let detail =
                    "No decisions are recorded, because `observability.decision_ring` is 0; send a log.";
                return Err(SimulationError::Senseless(detail.to_owned()));
            }
            traffic::recent(&ring.snapshot(), &named.unwrap_or_default(), &mut comparison, time_limit)
        }
        TrafficSource::UploadedLog(log) => {
            log.decide(&mut comparison, time_limit).map_err(SimulationError::Senseless)?
        }
    };
    notes.extend(past_bounds(&comparison, MOST_COUNTERS));
    Ok(shown(&comparison, &notes))
}

/// Notes on exceeded limits.
fn past_bounds(comparison: &Comparison, most_counters: usize) -> Vec<String> {
    let counted = [
        (
            comparison.overflowed(),
            format!("decisions shared a counter, because the maximum of {most_counters} was reached."),
        ),
        (comparison.unnamed, "requests belong to keys beyond the listed ones.".to_owned()),
        (
            comparison.cut,
            "requests have truncated texts; texts with the same beginning count as one.".to_owned(),
        ),
    ];
    counted.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect()
}

fn rules(
    files: Vec<Object<RawFile>>,
    merge_domains: bool,
    time_limit: &TimeLimit,
) -> Result<Rules, SimulationError> {
    if files.is_empty() || files.len() > MOST_FILES {
        return Err(SimulationError::Senseless(format!("`rules` must have 1 to {MOST_FILES} files.")));
    }
    if files.iter().any(|Object(file)| file.name.is_empty() || file.name.chars().count() > LONGEST_NAME) {
        return Err(SimulationError::Senseless(format!(
            "The `name` of a file must have 1 to {LONGEST_NAME} characters."
        )));
    }
    let texts = RuleTexts::of(files.into_iter().map(|Object(RawFile { name, text })| (name, text)));
    let bounds = RuleBounds::request(time_limit.cancellation());
    let loaded = texts.parse_within(merge_domains, &bounds);
    let loaded = loaded.map_err(|problems| SimulationError::Rules(problems.to_string()))?;
    Ok(loaded.ruleset.rules)
}

fn shown(comparison: &Comparison, notes: &[String]) -> Value {
    let total = |total: Total| json!({"allowed": total.allowed, "limited": total.limited, "unlimited": total.unlimited});
    let keys = comparison.first(SHOWN).into_iter().map(|(who, tally)| {
        let entries = who.entries.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        json!({
            "domain": who.domain,
            "entries": redacted_entries(entries),
            "requests": tally.requests,
            "limited_now": tally.limited.now,
            "limited_then": tally.limited.then,
        })
    });
    let timeline = &comparison.timeline;
    let (start, width) = (timeline.start_ms(), timeline.width_ms());
    let columns = (0_u64..).zip(timeline.columns()).map(|(number, [requests, now, then])| {
        let t_ms = start.saturating_add(number.saturating_mul(width));
        json!({"t_ms": t_ms, "width_ms": width, "requests": requests, "limited_now": now, "limited_then": then})
    });
    json!({
        "requests": comparison.requests,
        "span_ms": comparison.span_ms.map_or(0, |(first, last)| last - first),
        "now": total(comparison.total.now),
        "then": total(comparison.total.then),
        "newly_limited": comparison.newly_limited,
        "newly_allowed": comparison.newly_allowed,
        "keys": keys.collect::<Vec<_>>(),
        "timeline": columns.collect::<Vec<_>>(),
        "partial": (!notes.is_empty()).then(|| notes.join(" ")),
    })
}
