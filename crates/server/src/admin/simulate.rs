//! `POST /api/v1/simulate`: the last decisions, or a log, decided under the rules in force and under others, side by side.
//! Both sides begin with empty counters, so that what differs is the rules' doing and nothing else's.

mod named;
mod patience;
#[cfg(test)]
mod tests;
mod traffic;

use super::Admin;
use super::bounds::{Held, NotTaken, PASSED_OVER};
use super::object::Object;
use super::reply::{not_now, ok, problem, problem_with, read, senseless};
use crate::config::RuleTexts;
use crate::replay::{Both, Comparison, Total};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use hivemind_core::Rules;
use hivemind_telemetry::shown_entries;
use http_body::Body;
use named::Named;
use patience::Patience;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use traffic::{RawSource, Source};

pub(super) const PATH: &str = "/api/v1/simulate";

/// Reading the rules and deciding under them take no longer, together.
const WITHIN: Duration = Duration::from_secs(10);
/// Who asks waits no longer for another's to end.
const WAITS: Duration = Duration::from_secs(12);
/// Whoever decides goes first. Not as polite as can be: on a busy machine it would never come to its end.
const NICE: i32 = 5;
/// No body is longer.
const LARGEST: usize = 8 << 20;
/// More files are no rules that people wrote.
const MOST_FILES: usize = 256;
const LONGEST_NAME: usize = 255;
/// Counters of each side.
const MOST_COUNTERS: usize = 100_000;
/// As many as the answer tells of.
const SHOWN: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)] // A misspelt key must not be taken for none.
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

/// Why nothing is simulated.
enum Refused {
    /// Everything that is wrong with the rules, as the command line prints it.
    Rules(String),
    Senseless(String),
    /// The rules alone took all of the time.
    TooSlow,
    /// The thread that did it is gone.
    Lost,
}

pub(super) fn routes() -> Router<Admin> {
    Router::new().route("/api/v1/simulate", post(simulate)) // As `PATH` has it: routes stand where they are made.
}

async fn simulate(State(admin): State<Admin>, request: Request) -> Response {
    // Who says beforehand how much it is need not send it.
    let is_too_large = request.body().size_hint().lower() > (LARGEST * PASSED_OVER) as u64;
    let gathered = if is_too_large {
        Err(NotTaken::TooLarge)
    } else {
        admin.bounds.gather(request.into_body(), LARGEST).await
    };
    let (body, held) = match gathered {
        Ok(gathered) => gathered,
        Err(why) => {
            return why.answer(&format!("A simulation has at most {LARGEST} bytes; send a part of the log."));
        }
    };
    // After the body: who sends slowly keeps nobody else from a place.
    let Ok(place) = Arc::clone(&admin.room.simulations).try_acquire_owned() else {
        return not_now("One simulation runs and another waits for it; ask again in a moment.");
    };
    let raw: RawSimulation = match read(&body) {
        Ok(raw) => raw,
        Err(answer) => return answer,
    };
    drop((body, held));
    let turn = match admin.bounds.simulation.take(WAITS).await {
        Ok(turn) => turn,
        Err(not_now) => return not_now,
    };
    let simulated = apart((place, turn), move || simulated(&admin, raw)).await;
    match simulated.unwrap_or(Err(Refused::Lost)) {
        Ok(body) => ok(&body),
        Err(refused) => refused.answer(),
    }
}

/// Does something on a thread of its own that lets others go first, and ends with it. It keeps its places to its end, also where
/// nobody waits for it any more.
async fn apart<T: Send + 'static>(
    places: (Held, Held),
    what: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (tell, told) = oneshot::channel();
    let thread = std::thread::Builder::new().name("simulation".to_owned()).spawn(move || {
        // Where it cannot be, it is as any other.
        let _ = rustix::process::nice(NICE);
        let _ = tell.send(what()); // Whoever asked may have gone.
        drop(places);
    });
    // Without a thread, whoever would tell is gone as well.
    drop(thread);
    told.await.ok()
}

impl Refused {
    fn answer(self) -> Response {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        match self {
            Self::Rules(errors) => {
                let members = Map::from_iter([("errors".to_owned(), json!(errors))]);
                let detail = "The rules are wrong: `errors` says where and what to do.";
                problem_with(status, "These are no rules", detail, members)
            }
            Self::Senseless(detail) => senseless(&detail),
            Self::TooSlow => senseless(&format!(
                "Reading these rules took all of the {} s that a simulation has; send fewer of them.",
                WITHIN.as_secs()
            )),
            Self::Lost => problem(
                StatusCode::INTERNAL_SERVER_ERROR,
                "Not simulated",
                "The log of the service may say why.",
            ),
        }
    }
}

fn simulated(admin: &Admin, raw: RawSimulation) -> Result<Value, Refused> {
    let service = &admin.service.0;
    let patience = Patience::new(WITHIN);
    let then = rules(raw.rules, admin.room.merge_domains)?;
    if patience.is_over() {
        return Err(Refused::TooSlow);
    }
    let source = Source::new(raw.source.0, &then).map_err(Refused::Senseless)?;
    let rules = Both { now: service.with_rules(Rules::clone), then };
    let named = matches!(source, Source::Recent).then(|| Named::of([&rules.now, &rules.then]));
    let mut comparison = Comparison::new(rules, MOST_COUNTERS, service.on_refusal());
    let mut notes = match source {
        Source::Recent => {
            let ring = &service.stats().ring;
            if !ring.is_on() {
                let detail = "No decisions are kept: `observability.decision_ring` is 0. Send a log.";
                return Err(Refused::Senseless(detail.to_owned()));
            }
            traffic::recent(&ring.copied(), &named.unwrap_or_default(), &mut comparison, patience)
        }
        Source::Log(log) => log.decide(&mut comparison, patience).map_err(Refused::Senseless)?,
    };
    notes.extend(past_bounds(&comparison, MOST_COUNTERS));
    Ok(shown(&comparison, &notes))
}

/// What there was too much of.
fn past_bounds(comparison: &Comparison, most_counters: usize) -> Vec<String> {
    let counted = [
        (
            comparison.overflowed(),
            format!("decisions shared a counter for want of room for more than {most_counters}."),
        ),
        (comparison.unnamed, "requests are of names past those that are told one by one.".to_owned()),
        (
            comparison.cut,
            "requests have texts that are cut off: those that begin alike are one here.".to_owned(),
        ),
    ];
    counted.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect()
}

fn rules(files: Vec<Object<RawFile>>, merge_domains: bool) -> Result<Rules, Refused> {
    if files.is_empty() || files.len() > MOST_FILES {
        return Err(Refused::Senseless(format!("`rules` has 1 to {MOST_FILES} files.")));
    }
    if files.iter().any(|Object(file)| file.name.is_empty() || file.name.chars().count() > LONGEST_NAME) {
        return Err(Refused::Senseless(format!("The `name` of a file has 1 to {LONGEST_NAME} letters.")));
    }
    let texts = RuleTexts::of(files.into_iter().map(|Object(RawFile { name, text })| (name, text)));
    let loaded = texts.parse(merge_domains).map_err(|problems| Refused::Rules(problems.to_string()))?;
    Ok(loaded.ruleset.rules)
}

fn shown(comparison: &Comparison, notes: &[String]) -> Value {
    let total = |total: Total| json!({"allowed": total.allowed, "limited": total.limited, "unlimited": total.unlimited});
    let keys = comparison.first(SHOWN).into_iter().map(|(who, tally)| {
        let entries = who.entries.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        json!({
            "domain": who.domain,
            "entries": shown_entries(entries),
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
