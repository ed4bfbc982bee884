//! A counter found by its readable name, for those who look at one client: which one it is, and by which limit.

use crate::bucket::{Bucket, GUARD_OF_PLACE, LimitKind};
use crate::client::{self, Client};
use crate::limiter::RateLimiter;
use crate::resolved::Resolved;
use hivemind_core::store::{Key, Parts};
use hivemind_core::{Entry, Limit};
use std::sync::Arc;

/// A counter, by its name and the limits in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamedCounter {
    /// Which one.
    pub key: Key,
    /// What it may admit.
    pub limit: Limit,
    /// Whether what it refuses passes all the same.
    pub is_dry_run: bool,
}

impl RateLimiter {
    /// The counter that a store knows by these parts, which are those of a charge; none where the limits in
    /// force charge nothing by that name, or where no client can have it: `203.0.113.9` for `ip:203.0.113.9`.
    /// Messages of a WebSocket are counted with their connection, and in no store.
    #[must_use]
    pub fn counter(&self, parts: Parts<'_>) -> Option<NamedCounter> {
        let limits = self.0.limits.load();
        if !limits.enabled {
            return None;
        }
        let values: Vec<&str> = parts.entries.iter().map(|(_, value)| *value).collect();
        if !parts.entries.iter().all(|entry| can_be(*entry)) {
            return None;
        }
        let bucket = bucket(&limits, parts, &values)?;
        // Some services share one counter, which has its own name.
        let service = parts.entries.first().filter(|(key, _)| *key == "service");
        let is_its_own = |(_, named): &(&str, &str)| bucket.service.as_deref().unwrap_or(named) == *named;
        service.is_none_or(is_its_own).then(|| NamedCounter {
            key: bucket.prefix.key(values),
            limit: bucket.limit,
            is_dry_run: bucket.dry_run,
        })
    }
}

/// Whether a request can have such an entry.
fn can_be((key, value): Entry<'_>) -> bool {
    match key {
        "client" => Client::can_be_named(value),
        "address" => client::is_address(value),
        _ => true,
    }
}

fn bucket(limits: &Resolved, parts: Parts<'_>, values: &[&str]) -> Option<Arc<Bucket>> {
    let kind = [LimitKind::Http, LimitKind::WsConnection, LimitKind::IpGuard]
        .into_iter()
        .find(|kind| kind.domain() == parts.domain)?;
    let has = |keys: &[&str]| parts.entries.iter().map(|(key, _)| *key).eq(keys.iter().copied());
    match (kind, values) {
        (LimitKind::IpGuard, [_]) if has(kind.keys()) => limits.guard.clone(),
        (LimitKind::IpGuard, [service, endpoint, _]) if has(&GUARD_OF_PLACE) => {
            let service = limits.known(service)?;
            let guarded = if *endpoint == LimitKind::WsConnection.domain() {
                service.named(LimitKind::WsConnection, "")
            } else {
                service.named(LimitKind::Http, endpoint)
            };
            guarded?.guard.clone()
        }
        (LimitKind::Http, [service, endpoint, _]) if has(kind.keys()) => {
            limits.known(service)?.named(kind, endpoint).cloned()
        }
        (LimitKind::WsConnection, [service, _]) if has(kind.keys()) => {
            limits.known(service)?.named(kind, "").cloned()
        }
        _ => None,
    }
}
