//! `POST /api/v1/simulate`: the last decisions, or a log, decided under the rules in force and under others, side by side.
//! Both sides begin with empty counters, so that what differs is the rules' doing and nothing else's.

mod traffic;

use super::Admin;
use super::reply::{ok, problem, problem_with, read, senseless};
use crate::config::RuleTexts;
use crate::replay::{Both, Comparison, Total};
use crate::telemetry::shown_entries;
use axum::Router;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use axum::routing::post;
use hivemind_core::Rules;
use http_body::Body;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use traffic::{RawSource, Source};

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
    rules: Vec<RawFile>,
    source: RawSource,
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
    /// The thread that did it is gone.
    Lost,
}

pub(super) fn routes() -> Router<Admin> {
    Router::new().route("/api/v1/simulate", post(simulate))
}

async fn simulate(State(admin): State<Admin>, request: Request) -> Response {
    // Before the body, which is held as long as it takes.
    let Ok(place) = Arc::clone(&admin.room.simulations).try_acquire_owned() else {
        let detail = "Other simulations run; ask again in a moment.";
        let mut response = problem(StatusCode::SERVICE_UNAVAILABLE, "Not now", detail);
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        return response;
    };
    let too_large = || {
        let detail = format!("A simulation has at most {LARGEST} bytes; send a part of the log.");
        problem(StatusCode::PAYLOAD_TOO_LARGE, "Too large", &detail)
    };
    // Who says beforehand how much it is need not send it.
    if request.body().size_hint().lower() > LARGEST as u64 {
        return too_large();
    }
    let Ok(body) = to_bytes(request.into_body(), LARGEST).await else { return too_large() };
    let raw: RawSimulation = match read(&body) {
        Ok(raw) => raw,
        Err(answer) => return answer,
    };
    drop(body);
    // It keeps its place to its end, also where nobody waits for it any more.
    let simulated = tokio::task::spawn_blocking(move || {
        let _place = place;
        simulated(&admin, raw)
    });
    let simulated = simulated.await;
    match simulated.unwrap_or(Err(Refused::Lost)) {
        Ok(body) => ok(&body),
        Err(refused) => refused.answer(),
    }
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
    let then = rules(raw.rules, admin.room.merge_domains)?;
    let source = Source::new(raw.source, &then).map_err(Refused::Senseless)?;
    let rules = Both { now: service.with_rules(Rules::clone), then };
    let mut comparison = Comparison::new(rules, MOST_COUNTERS, service.on_refusal());
    let mut notes = match source {
        Source::Recent => {
            let ring = &service.stats().ring;
            if !ring.is_on() {
                let detail = "No decisions are kept: `observability.decision_ring` is 0. Send a log.";
                return Err(Refused::Senseless(detail.to_owned()));
            }
            traffic::recent(&ring.copied(), &mut comparison)
        }
        Source::Log(log) => log.decide(&mut comparison).map_err(Refused::Senseless)?,
    };
    let shared = comparison.overflowed();
    if shared > 0 {
        notes.push(format!(
            "{shared} decisions shared a counter for want of room for more than {MOST_COUNTERS}."
        ));
    }
    if comparison.unnamed > 0 {
        notes.push(format!(
            "{} requests are of names past those that are told one by one.",
            comparison.unnamed
        ));
    }
    Ok(shown(&comparison, &notes))
}

fn rules(files: Vec<RawFile>, merge_domains: bool) -> Result<Rules, Refused> {
    if files.is_empty() || files.len() > MOST_FILES {
        return Err(Refused::Senseless(format!("`rules` has 1 to {MOST_FILES} files.")));
    }
    if files.iter().any(|file| file.name.is_empty() || file.name.chars().count() > LONGEST_NAME) {
        return Err(Refused::Senseless(format!("The `name` of a file has 1 to {LONGEST_NAME} letters.")));
    }
    let texts = RuleTexts::of(files.into_iter().map(|RawFile { name, text }| (name, text)));
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
