//! `/api/v1/keys/…`: what an operator asks of one key, and does to it. A key is named by its parts, because memory keeps
//! hashes only; the rules in force, or the gateway's limits, say which counters it has.

mod asked;
mod reset;

use super::audit::Audited;
use super::descriptor::RawKey;
use super::reply::{ok, problem, read};
use super::time::{millis, span_ms};
use super::{Admin, limit};
use crate::blocks::KeyName;
use crate::counters::{Counter, Counters};
use crate::mesh::shown_holding;
use crate::storage::Seen;
use asked::{RawBlock, RawGrant};
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use axum::{Extension, Router};
use hivemind_core::store::{Mode, Op, Sharing, StoreError};
use hivemind_core::{Clock, Cost, Limit, SystemClock};
use hivemind_mesh::NotPosted;
use serde_json::{Map, Value, json};

/// Why nothing is forgotten or given back where keys found no room of their own.
const CROWDED: &str = "This key shares its counter with others for want of room, and what all of them spent stays: raise `rate_limiting.max_keys`, or wait until it is over.";
/// Why not all of it is there again where nodes came or went.
const IN_DOUBT: &str = "Nodes came or went since this window began, and some may hold a part of it that its owner does not know of: that part is theirs until the window ends.";

/// The gateway's domain of guards.
const IP_GUARD: &str = ":ip_guard";

pub(super) fn routes() -> Router<Admin> {
    Router::new()
        .route("/api/v1/keys/lookup", post(lookup))
        .route("/api/v1/keys/reset", post(reset::reset))
        .route("/api/v1/keys/grant", post(grant))
        .route("/api/v1/keys/block", post(block))
        .route("/api/v1/keys/unblock", post(unblock))
}

/// What is left of each limit of a key, at all nodes together where they share it. It spends nothing, and is in no metric.
async fn lookup(State(admin): State<Admin>, body: Bytes) -> Result<Response, Response> {
    let counters = admin.counters_of(&read::<RawKey>(&body)?.name()?);
    let (now, entries) = (SystemClock.now(), counters.name.entries());
    let looked_at = counters.batch(&entries, Op::Peek, Cost::ZERO);
    let seen = admin.storage.look(&looked_at, Counters::context(now)).await.map_err(|error| away(&error))?;
    let limits = counters.each.iter().zip(&seen).map(|(counter, seen)| {
        let mut shown = of_limit(counter, seen);
        shown.insert("mode".to_owned(), json!(limit::mode(counter.mode)));
        shown.insert("mesh".to_owned(), seen.holding.as_ref().map(shown_holding).unwrap_or_default());
        Value::Object(shown)
    });
    let blocked = counters.name.with_parts(|parts| admin.storage.blocks().until(parts, now));
    Ok(ok(&json!({
        "domain": counters.name.domain(),
        "entries": counters.name.shown_entries(),
        "key_id": admin.service.0.id_of(&counters.name),
        "rule": counters.rule,
        "blocked_until_ms": blocked.map(millis),
        "limits": limits.collect::<Vec<_>>(),
    })))
}

/// Gives back what was spent, up to so much of each limit of a key.
async fn grant(
    State(admin): State<Admin>,
    Extension(audited): Extension<Audited>,
    body: Bytes,
) -> Result<Response, Response> {
    let asked = read::<RawGrant>(&body)?;
    let extra = asked.extra()?;
    let counters = admin.counters_of(&asked.key.name()?);
    admin.audits(&audited, &counters.name, counters.rule);
    audited.changes(&format!("extra={extra}"));
    let (now, entries) = (SystemClock.now(), counters.name.entries());
    let given = counters.batch(&entries, Op::Refund, Cost::new(extra));
    let looked_at = counters.batch(&entries, Op::Peek, Cost::ZERO);
    let (storage, context) = (&admin.storage, Counters::context(now));
    let before = storage.look(&looked_at, context).await.map_err(|error| away(&error))?;
    let verdicts = storage.operate(&given, context).await.map_err(|error| not_told(&error))?;
    let after = storage.look(&looked_at, Counters::context(SystemClock.now())).await;
    let after = after.map_err(|error| not_told(&error))?;
    // By whoever keeps the counter, as it gave back: what is left later may be spent again by then.
    let given = verdicts.each().iter().map(|verdict| verdict.remaining.saturating_sub(verdict.available));
    let seen = before.iter().zip(&after).zip(given);
    let limits = counters.each.iter().zip(seen).map(|(counter, ((before, after), given))| {
        let granted = if after.is_crowded { 0 } else { given.min(extra) };
        let mut shown = of_limit(counter, after);
        shown.insert("granted".to_owned(), json!(granted));
        if granted < extra {
            shown.insert("why".to_owned(), json!(why_less(&counter.limit, before, after)));
        }
        Value::Object(shown)
    });
    Ok(ok(&json!({"limits": limits.collect::<Vec<_>>()})))
}

/// Refuses a key until a time, whatever its limits say.
async fn block(
    State(admin): State<Admin>,
    Extension(audited): Extension<Audited>,
    body: Bytes,
) -> Result<Response, Response> {
    let (asked, now) = (read::<RawBlock>(&body)?, SystemClock.now());
    let until = asked.until(admin.storage.blocks().time(now))?;
    let name = asked.key.name()?;
    let counters = admin.counters_of(&name);
    admin.audits(&audited, &name, counters.rule);
    audited.changes(&format!("until_ms={}", millis(until)));
    if let Some(detail) = admin.unblockable(&name, &counters) {
        return Err(problem(StatusCode::CONFLICT, "Not blocked", &detail));
    }
    admin.is_believed()?;
    admin.storage.blocks().block(&name, until, now).map_err(|why| not_blocked(&why))?;
    let scope = if admin.storage.blocks().are_shared() { "mesh" } else { "node" };
    // Of none, only requests that bring a limit of their own would ask whether it is blocked.
    let limits = counters.each.len();
    Ok(ok(&json!({"blocked_until_ms": millis(until), "scope": scope, "limits": limits})))
}

/// Ends a block before its time.
async fn unblock(
    State(admin): State<Admin>,
    Extension(audited): Extension<Audited>,
    body: Bytes,
) -> Result<Response, Response> {
    // By the name that was blocked, whatever rules there are by now.
    let name = read::<RawKey>(&body)?.name()?;
    admin.audits(&audited, &name, None);
    admin.is_believed()?;
    Ok(ok(&json!({"was_blocked": admin.storage.blocks().unblock(&name, SystemClock.now())})))
}

impl Admin {
    /// Says whose key a write is about.
    fn audits(&self, audited: &Audited, name: &KeyName, rule: Option<usize>) {
        audited.is_of(name, self.service.0.id_of(name), rule);
    }

    /// The counters of a key: those of the rules, or of the gateway, whose names no file of rules has.
    pub(super) fn counters_of(&self, name: &KeyName) -> Counters {
        let of_rules = self.service.0.counters_of(name);
        let Some(gateway) = self.gateway.as_ref().filter(|_| of_rules.each.is_empty()) else {
            return of_rules;
        };
        match name.with_parts(|parts| gateway.limiter().counter(parts)) {
            None => of_rules,
            Some(counter) => {
                let mode = if counter.is_dry_run { Mode::Shadow } else { Mode::Enforce };
                let counter = Counter {
                    key: counter.key,
                    limit: counter.limit,
                    ordinal: 0,
                    mode,
                    sharing: Sharing::default(),
                };
                Counters { each: vec![counter], ..of_rules }
            }
        }
    }

    /// Why peers would not believe what is said here.
    #[expect(clippy::result_large_err, reason = "it is the answer")]
    fn is_believed(&self) -> Result<(), Response> {
        let is_off = self.mesh.as_ref().is_some_and(|mesh| mesh.is_clock_off());
        if is_off {
            return Err(problem(
                StatusCode::SERVICE_UNAVAILABLE,
                "Its clock is off",
                "Peers agree that this node's clock is off, and what is dated by it they might not believe: set it, or ask another node.",
            ));
        }
        Ok(())
    }

    /// Why a key cannot be blocked, if it cannot.
    fn unblockable(&self, asked: &KeyName, counters: &Counters) -> Option<String> {
        if asked.domain() == IP_GUARD {
            let why = "Only clients that name themselves are charged to the guard of their address, so others from there would pass";
            return Some(format!("{why}: block the `client` `ip:ADDRESS` of each service and endpoint."));
        }
        if counters.each.is_empty() && asked.domain().starts_with(':') {
            let why = "The gateway has no counter of that name: `service` is the id of one, `endpoint` the id of one of its or `*`";
            return Some(format!(
                "{why}, and `client` as `/api/v1/top` shows it, like `ip:203.0.113.9` or `ip:2001:db8::/64`."
            ));
        }
        if !self.service.0.is_enabled() && counters.rule.is_some() {
            return Some("Nothing is limited while `rate_limiting.enabled` is false.".to_owned());
        }
        (counters.name != *asked).then(|| {
            let entries = counters.name.shown_entries();
            format!(
                "All values of a wildcard share this counter, so all of them would be blocked; if that is meant, \
                 block the entries {entries}."
            )
        })
    }
}

/// A limit, and what its counter says.
fn of_limit(counter: &Counter, seen: &Seen) -> Map<String, Value> {
    let mut shown = limit::members(&counter.limit);
    shown.insert("remaining".to_owned(), json!(seen.verdict.remaining));
    shown.insert("reset_ms".to_owned(), json!(span_ms(seen.verdict.reset_after)));
    shown
}

/// Whether nodes may hold a part of it that its owner does not know of.
fn is_in_doubt(seen: &Seen) -> bool {
    seen.holding.as_ref().is_some_and(|holding| holding.unaccounted > 0)
}

fn why_less(limit: &Limit, before: &Seen, after: &Seen) -> &'static str {
    if after.is_crowded {
        CROWDED
    } else if after.verdict.remaining >= u64::from(limit.burst()) {
        "No more is given back than was spent: all of it is there."
    } else if is_in_doubt(before) || is_in_doubt(after) {
        IN_DOUBT
    } else {
        "No more is given back than was spent, and what was counted beyond the limit is made good first; a reset forgets all of it."
    }
}

fn not_blocked(why: &NotPosted) -> Response {
    let (status, detail) = match why {
        NotPosted::Full { most } => {
            (StatusCode::CONFLICT, format!("{most} keys are blocked, which is the most: unblock one, or give a rule 0 requests."))
        }
        NotPosted::Crowded { most } => {
            (StatusCode::CONFLICT, format!("{most} words about keys are remembered, of those that were unblocked as well, and the oldest is a block: unblocked ones are forgotten after a week; block the oldest again, or give a rule 0 requests."))
        }
        NotPosted::TooLong { most } => {
            (StatusCode::UNPROCESSABLE_ENTITY, format!("Its name has more than {most} bytes, and no such key can be blocked."))
        }
        NotPosted::TooLate => (
            StatusCode::UNPROCESSABLE_ENTITY,
            "A block is for 366 days at most; what is for good belongs into the rules, as a limit of 0 requests.".to_owned(),
        ),
        _ => (StatusCode::UNPROCESSABLE_ENTITY, "Its end is past: send a later `until_ms`, or `for_ms`.".to_owned()),
    };
    problem(status, "Not blocked", &detail)
}

/// Whoever keeps the counters has not answered.
fn away(error: &StoreError) -> Response {
    problem(
        StatusCode::SERVICE_UNAVAILABLE,
        "The counters cannot be reached",
        &format!("{error}; try again. In a mesh, `/api/v1/peers` says who is silent."),
    )
}

/// The same of a grant, which may be done all the same: in a mesh it is told until its owner hears it.
fn not_told(error: &StoreError) -> Response {
    problem(
        StatusCode::SERVICE_UNAVAILABLE,
        "The counters cannot be reached",
        &format!(
            "{error}: what was granted may be given back as soon as it is heard, and nobody knows how much yet. Look the key up before you grant again."
        ),
    )
}
