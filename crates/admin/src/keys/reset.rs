//! `POST /api/v1/keys/reset`: resets the counters of a key, and reports those that could not be reset.

use super::{CROWDED, IN_DOUBT, away, is_in_doubt};
use crate::Admin;
use crate::audit::AuditSubject;
use crate::descriptor::RawKey;
use crate::reply::{ok, read};
use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use hivemind_core::store::{Op, Store};
use hivemind_core::{Clock, Cost, SystemClock};
use hivemind_engine::key_counters::KeyCounters;
use serde_json::json;

/// Resets each limit of a key.
pub(super) async fn reset(
    State(admin): State<Admin>,
    Extension(audited): Extension<AuditSubject>,
    body: Bytes,
) -> Result<Response, Response> {
    let counters = admin.counters_of(&read::<RawKey>(&body)?.name()?);
    admin.audits(&audited, &counters.name, counters.rule);
    let entries = counters.name.entries();
    let batch = counters.batch(&entries, Op::Spend, Cost::ONE);
    for charge in &batch {
        admin.storage.forget(charge).await.map_err(|error| away(&error))?;
    }
    let now = SystemClock.now();
    // A counter that other keys share is not reset for one of them.
    let crowded = batch.iter().filter(|charge| admin.storage.is_crowded(charge, now)).count();
    if crowded > 0 {
        return Ok(ok(&json!({"reset": batch.len() - crowded, "crowded": crowded, "why": CROWDED})));
    }
    // The reset is done, even if this read fails.
    let looked_at = counters.batch(&entries, Op::Peek, Cost::ZERO);
    let seen = admin.storage.look(&looked_at, KeyCounters::context(now)).await.unwrap_or_default();
    let in_doubt = seen.iter().filter(|seen| is_in_doubt(seen)).count();
    if in_doubt > 0 {
        return Ok(ok(&json!({"reset": batch.len() - in_doubt, "in_doubt": in_doubt, "why": IN_DOUBT})));
    }
    Ok(ok(&json!({"reset": batch.len()})))
}
