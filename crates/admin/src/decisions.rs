//! `GET /api/v1/decisions`: the last decisions, newest first.

use super::Admin;
use super::page_query::PageQuery;
use super::query::Query;
use super::reply::{no_question, ok, problem};
use super::time::millis;
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use hivemind_core::Timestamp;
use hivemind_telemetry::Frontend;
use hivemind_telemetry::ring::{DecisionRecord, RecordRef, Truncation, cut};
use hivemind_telemetry::{hash_value, redacted_entries, salt_hash};
use serde_json::{Value, json};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

const NAMES: [&str; 7] = {
    let [limit, cursor] = PageQuery::NAMES;
    ["outcome", "domain", "key", "value", "since_ms", limit, cursor]
};

/// How long a request waits for a permit.
const PATIENCE: Duration = Duration::from_secs(5);

pub(super) fn routes() -> Router<Admin> {
    Router::new().route("/api/v1/decisions", get(list))
}

async fn list(State(admin): State<Admin>, RawQuery(query): RawQuery) -> Response {
    let place = match admin.bounds.copies.take(PATIENCE).await {
        Ok(place) => place,
        Err(not_now) => return not_now,
    };
    // Thousands of records are copied and sorted, so this runs outside the async threads.
    let answered = tokio::task::spawn_blocking(move || {
        let _place = place;
        answer(&admin, query.as_deref())
    });
    let answered = answered.await;
    match answered {
        Ok(Ok(page)) => ok(&page),
        Ok(Err(detail)) => no_question(&detail),
        Err(_) => problem(
            StatusCode::INTERNAL_SERVER_ERROR,
            "Internal error",
            "The service log may contain the cause.",
        ),
    }
}

fn answer(admin: &Admin, query: Option<&str>) -> Result<Value, String> {
    let query = Query::read(query, &NAMES)?;
    let (page, wanted) = (PageQuery::of(&query)?, DecisionFilter::of(&query)?);
    let after: Option<DecisionPosition> = page.after()?;
    let ring = &admin.service.0.stats().ring;
    let snapshot = ring.snapshot();
    let older = |mark: &RecordRef<'_>| {
        after.is_none_or(|after| (mark.at.as_nanos(), mark.id) < (after.nanos, after.id))
    };
    let items = snapshot.newest_first().into_iter().filter(older).filter_map(|mark| {
        let decision = mark.read().filter(|decision| wanted.has(decision))?;
        Some((DecisionPosition { nanos: mark.at.as_nanos(), id: mark.id }, shown(mark.id, &decision)))
    });
    let mut page = page.of_items(items);
    if let Some(members) = page.as_object_mut() {
        members.insert("is_on".to_owned(), ring.is_on().into());
        members.insert("missed".to_owned(), snapshot.missed.into());
    }
    Ok(page)
}

/// Where a page ends.
#[derive(Clone, Copy)]
struct DecisionPosition {
    nanos: u64,
    id: u64,
}

impl fmt::Display for DecisionPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.nanos, self.id)
    }
}

impl FromStr for DecisionPosition {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (nanos, id) = text.split_once('.').ok_or(())?;
        Ok(Self { nanos: nanos.parse().map_err(|_| ())?, id: id.parse().map_err(|_| ())? })
    }
}

/// The filter of a request.
struct DecisionFilter {
    is_denied: Option<bool>,
    domain: Option<String>,
    key: Option<String>,
    value: Option<ValueFilter>,
    since: Timestamp,
}

/// A value as the ring stores it: truncated, or as a hash if it is a credential. The hash of a value also finds
/// values that are stored in clear text: so no value has to be part of a URL, which proxies log.
struct ValueFilter {
    text: String,
    hashed: [String; 3],
}

impl ValueFilter {
    fn of(value: &str) -> Self {
        // The entry's key is unknown here, and so is whether its hash is salted. The last one is for callers that
        // send the hash of a PIN.
        let hash = hash_value(value);
        Self { text: cut(value).to_owned(), hashed: [salt_hash(&hash), hash, salt_hash(value)] }
    }

    fn is(&self, kept: &str) -> bool {
        let is_of_hash = || self.text.starts_with("sha256:") && self.text == hash_value(kept);
        self.text == kept || self.hashed.iter().any(|hashed| hashed == kept) || is_of_hash()
    }
}

impl DecisionFilter {
    fn of(query: &Query) -> Result<Self, String> {
        let is_denied = match query.get("outcome") {
            None => None,
            Some("allowed") => Some(false),
            Some("denied") => Some(true),
            Some(_) => return Err("`outcome` must be `allowed` or `denied`.".to_owned()),
        };
        let since = match query.get("since_ms").map(str::parse::<u64>) {
            None => Timestamp::default(),
            Some(Ok(millis)) => Timestamp::from_millis(millis),
            Some(Err(_)) => return Err("`since_ms` must be a number of milliseconds since 1970.".to_owned()),
        };
        // Truncated as in the ring: a longer text would match nothing.
        let text = |name| query.get(name).map(|text| cut(text).to_owned());
        let value = query.get("value").map(ValueFilter::of);
        Ok(Self { is_denied, domain: text("domain"), key: text("key"), value, since })
    }

    fn has(&self, decision: &DecisionRecord<'_>) -> bool {
        let is = |wanted: &Option<String>, text: &str| wanted.as_ref().is_none_or(|wanted| wanted == text);
        let has_entry = || {
            let mut entries = decision.parts.iter().flat_map(|part| &part.entries);
            let is_value = |value: &str| self.value.as_ref().is_none_or(|wanted| wanted.is(value));
            entries.any(|(key, value)| is(&self.key, key) && is_value(value))
        };
        decision.at >= self.since
            && self.is_denied.is_none_or(|wanted| wanted == decision.is_denied)
            && is(&self.domain, decision.domain)
            && ((self.key.is_none() && self.value.is_none()) || has_entry())
    }
}

fn shown(id: u64, decision: &DecisionRecord<'_>) -> Value {
    let descriptors = decision.parts.iter().map(|part| {
        json!({
            "entries": redacted_entries(part.entries.iter().copied()),
            "hits": part.hits,
            "code": if part.is_over { "OVER_LIMIT" } else { "OK" },
            "rule": part.rule,
            "remaining": part.remaining,
        })
    });
    let frontend = match decision.frontend {
        Frontend::Grpc => "grpc",
        Frontend::Json => "json",
        Frontend::Gateway => "gateway",
    };
    json!({
        "id": id,
        "t_ms": millis(decision.at),
        "door": frontend,
        "domain": decision.domain,
        "outcome": if decision.is_denied { "denied" } else { "allowed" },
        "descriptors": descriptors.collect::<Vec<_>>(),
        "is_cut": decision.truncation != Truncation::None || decision.is_hashed,
    })
}
