//! `/api/v1/keys/…`: operations on one key. A key is given by its parts, because memory contains only hashes; the
//! active rules, or the gateway's limits, determine its counters.

mod bodies;
mod reset;

use super::audit::AuditSubject;
use super::descriptor::RawKey;
use super::reply::{ok, problem, read};
use super::time::{millis, span_ms};
use super::{Admin, limit};
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use axum::{Extension, Router};
use bodies::{RawBlock, RawGrant};
use hivemind_core::store::{Mode, Op, Sharing, StoreError};
use hivemind_core::{Clock, Cost, Limit, SystemClock};
use hivemind_engine::block_list::KeyName;
use hivemind_engine::key_counters::{KeyCounter, KeyCounters};
use hivemind_engine::mesh::shown_holding;
use hivemind_engine::storage::CounterStatus;
use hivemind_mesh::EntryError;
use serde_json::{Map, Value, json};

/// The counter is shared because the table was full.
const CROWDED: &str = "This key shares its counter with others because the table is full, and what they spent stays: raise `rate_limiting.max_keys`, or wait until the window ends.";
/// A part of the window is not accounted for after a membership change.
const IN_DOUBT: &str = "Nodes joined or left since this window began, and some may hold allowance that its owner does not know of: it stays with them until the window ends.";

/// The gateway's domain of address guards.
const IP_GUARD: &str = ":ip_guard";

pub(super) fn routes() -> Router<Admin> {
    Router::new()
        .route("/api/v1/keys/lookup", post(lookup))
        .route("/api/v1/keys/reset", post(reset::reset))
        .route("/api/v1/keys/grant", post(grant))
        .route("/api/v1/keys/block", post(block))
        .route("/api/v1/keys/unblock", post(unblock))
}

/// What is left of each limit of a key, at all nodes together if they share it. It spends nothing and is not counted
/// in metrics.
async fn lookup(State(admin): State<Admin>, body: Bytes) -> Result<Response, Response> {
    let counters = admin.counters_of(&read::<RawKey>(&body)?.name()?);
    let (now, entries) = (SystemClock.now(), counters.name.entries());
    let looked_at = counters.batch(&entries, Op::Peek, Cost::ZERO);
    let seen =
        admin.storage.look(&looked_at, KeyCounters::context(now)).await.map_err(|error| away(&error))?;
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

/// Returns up to the given number of hits to each limit of a key.
async fn grant(
    State(admin): State<Admin>,
    Extension(audited): Extension<AuditSubject>,
    body: Bytes,
) -> Result<Response, Response> {
    let asked = read::<RawGrant>(&body)?;
    let extra = asked.extra()?;
    let counters = admin.counters_of(&asked.key.name()?);
    admin.audits(&audited, &counters.name, counters.rule);
    audited.set_change(&format!("extra={extra}"));
    let (now, entries) = (SystemClock.now(), counters.name.entries());
    let given = counters.batch(&entries, Op::Refund, Cost::new(extra));
    let looked_at = counters.batch(&entries, Op::Peek, Cost::ZERO);
    let (storage, context) = (&admin.storage, KeyCounters::context(now));
    let before = storage.look(&looked_at, context).await.map_err(|error| away(&error))?;
    let verdicts = storage.operate(&given, context).await.map_err(|error| grant_uncertain(&error))?;
    let after = storage.look(&looked_at, KeyCounters::context(SystemClock.now())).await;
    let after = after.map_err(|error| grant_uncertain(&error))?;
    // Measured by the owner when it returned the hits: what is left later may be spent again by then.
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

/// Refuses a key until a time, regardless of its limits.
async fn block(
    State(admin): State<Admin>,
    Extension(audited): Extension<AuditSubject>,
    body: Bytes,
) -> Result<Response, Response> {
    let (asked, now) = (read::<RawBlock>(&body)?, SystemClock.now());
    let until = asked.until(admin.storage.blocks().time(now))?;
    let name = asked.key.name()?;
    let counters = admin.counters_of(&name);
    admin.audits(&audited, &name, counters.rule);
    audited.set_change(&format!("until_ms={}", millis(until)));
    if let Some(detail) = admin.unblockable(&name, &counters) {
        return Err(problem(StatusCode::CONFLICT, "Not blocked", &detail));
    }
    admin.is_believed()?;
    admin.storage.blocks().block(&name, until, now).map_err(|why| not_blocked(&why))?;
    let scope = if admin.storage.blocks().are_shared() { "mesh" } else { "node" };
    // Without limits, the block affects only requests that carry their own limit.
    let limits = counters.each.len();
    Ok(ok(&json!({"blocked_until_ms": millis(until), "scope": scope, "limits": limits})))
}

/// Ends a block early.
async fn unblock(
    State(admin): State<Admin>,
    Extension(audited): Extension<AuditSubject>,
    body: Bytes,
) -> Result<Response, Response> {
    // The name as it was blocked, whatever the rules are now.
    let name = read::<RawKey>(&body)?.name()?;
    admin.audits(&audited, &name, None);
    admin.is_believed()?;
    Ok(ok(&json!({"was_blocked": admin.storage.blocks().unblock(&name, SystemClock.now())})))
}

impl Admin {
    /// Records the key of a write for the audit log.
    fn audits(&self, audited: &AuditSubject, name: &KeyName, rule: Option<usize>) {
        audited.set_key(name, self.service.0.id_of(name), rule);
    }

    /// The counters of a key: those of the rules, or of the gateway, whose names no rule file can use.
    pub(super) fn counters_of(&self, name: &KeyName) -> KeyCounters {
        let of_rules = self.service.0.counters_of(name);
        let Some(gateway) = self.gateway.as_ref().filter(|_| of_rules.each.is_empty()) else {
            return of_rules;
        };
        match name.with_parts(|parts| gateway.limiter().counter(parts)) {
            None => of_rules,
            Some(counter) => {
                let mode = if counter.is_dry_run { Mode::Shadow } else { Mode::Enforce };
                let counter = KeyCounter {
                    key: counter.key,
                    limit: counter.limit,
                    ordinal: 0,
                    mode,
                    sharing: Sharing::default(),
                };
                KeyCounters { each: vec![counter], ..of_rules }
            }
        }
    }

    /// Checks that peers would accept what this node writes.
    #[expect(clippy::result_large_err, reason = "it is the answer")]
    fn is_believed(&self) -> Result<(), Response> {
        let is_off = self.mesh.as_ref().is_some_and(|mesh| mesh.is_clock_off());
        if is_off {
            return Err(problem(
                StatusCode::SERVICE_UNAVAILABLE,
                "Clock off",
                "Peers agree that this node's clock is off, and may reject timestamps from it: set the clock, or use another node.",
            ));
        }
        Ok(())
    }

    /// Why a key cannot be blocked, if it cannot.
    fn unblockable(&self, asked: &KeyName, counters: &KeyCounters) -> Option<String> {
        if asked.domain() == IP_GUARD {
            let why = "Only clients that identify themselves are charged to the guard of their address, so others from there would pass";
            return Some(format!("{why}: block the `client` `ip:ADDRESS` of each service and endpoint."));
        }
        if counters.each.is_empty() && asked.domain().starts_with(':') {
            let why = "The gateway has no counter of that name: `service` must be a service id, `endpoint` the id of one of its endpoints or `*`";
            return Some(format!(
                "{why}, and `client` as in `/api/v1/top`, such as `ip:203.0.113.9` or `ip:2001:db8::/64`."
            ));
        }
        if !self.service.0.is_enabled() && counters.rule.is_some() {
            return Some("Nothing is limited while `rate_limiting.enabled` is false.".to_owned());
        }
        (counters.name != *asked).then(|| {
            let entries = counters.name.shown_entries();
            format!(
                "All values of a wildcard share this counter, so the block would affect all of them; to do that, \
                 block the entries {entries}."
            )
        })
    }
}

/// A limit with the state of its counter.
fn of_limit(counter: &KeyCounter, seen: &CounterStatus) -> Map<String, Value> {
    let mut shown = limit::members(&counter.limit);
    shown.insert("remaining".to_owned(), json!(seen.verdict.remaining));
    shown.insert("reset_ms".to_owned(), json!(span_ms(seen.verdict.reset_after)));
    shown
}

/// Whether nodes may hold allowance that the owner does not know of.
fn is_in_doubt(seen: &CounterStatus) -> bool {
    seen.holding.as_ref().is_some_and(|holding| holding.unaccounted > 0)
}

fn why_less(limit: &Limit, before: &CounterStatus, after: &CounterStatus) -> &'static str {
    if after.is_crowded {
        CROWDED
    } else if after.verdict.remaining >= u64::from(limit.burst()) {
        "A grant returns at most what was spent: the limit is at its full amount again."
    } else if is_in_doubt(before) || is_in_doubt(after) {
        IN_DOUBT
    } else {
        "A grant returns at most what was spent, and hits beyond the limit are settled first; a reset clears all of it."
    }
}

fn not_blocked(why: &EntryError) -> Response {
    let (status, detail) = match why {
        EntryError::Full { most } => (
            StatusCode::CONFLICT,
            format!(
                "{most} keys are blocked, which is the maximum: unblock one, or use a rule with 0 requests."
            ),
        ),
        EntryError::Crowded { most } => (
            StatusCode::CONFLICT,
            format!(
                "The block list has its maximum of {most} entries, including unblocked keys, which expire after a week, and the oldest is an active block: block that one again, or use a rule with 0 requests."
            ),
        ),
        EntryError::TooLong { most } => (
            StatusCode::UNPROCESSABLE_ENTITY,
            format!("The key is longer than {most} bytes and cannot be blocked."),
        ),
        EntryError::TooLate => (
            StatusCode::UNPROCESSABLE_ENTITY,
            "A block lasts at most 366 days; for a permanent one, add a rule with 0 requests.".to_owned(),
        ),
        _ => (
            StatusCode::UNPROCESSABLE_ENTITY,
            "The end is in the past; send a later `until_ms`, or `for_ms`.".to_owned(),
        ),
    };
    problem(status, "Not blocked", &detail)
}

/// The store did not answer.
fn away(error: &StoreError) -> Response {
    problem(
        StatusCode::SERVICE_UNAVAILABLE,
        "Counters unreachable",
        &format!("{error}; retry. In a mesh, `/api/v1/peers` shows which nodes are silent."),
    )
}

/// The same after a grant, which may still take effect: a mesh repeats it until the owner receives it.
fn grant_uncertain(error: &StoreError) -> Response {
    problem(
        StatusCode::SERVICE_UNAVAILABLE,
        "Counters unreachable",
        &format!(
            "{error}: the grant may still be applied when it reaches the owner. Look up the key before you grant again."
        ),
    )
}
