//! Lookup of a counter by its readable name, for operators who inspect one client.

use crate::active_limits::ActiveLimits;
use crate::bucket::Bucket;
use crate::client::{self, Client};
use crate::limit_kind::{LimitKind, SCOPED_GUARD_KEYS};
use crate::limiter::RateLimiter;
use hivemind_core::store::{Key, Parts};
use hivemind_core::{Entry, Limit};
use std::sync::Arc;

/// A counter and its active limit.
///
/// ```
/// use hivemind_core::store::Parts;
/// use hivemind_tower::{Limits, RateLimiter, ServiceLimits};
///
/// let limiter = RateLimiter::new(Limits::new().service(ServiceLimits::new("shop")))?;
/// let entries = [("service", "shop"), ("endpoint", "*"), ("client", "ip:203.0.113.9")];
/// let counter = limiter.counter(Parts { domain: ":http", entries: &entries }).ok_or("not charged")?;
/// assert!(counter.limit.requests() == 100 && !counter.is_dry_run);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamedCounter {
    /// The key of the counter.
    pub key: Key,
    /// The limit of the counter.
    pub limit: Limit,
    /// Whether the limit is in dry run: what it refuses passes.
    pub is_dry_run: bool,
}

impl RateLimiter {
    /// The counter with these parts, as in a charge. `None` if the active limits never charge a counter of this
    /// name, or if a client cannot have it, such as `203.0.113.9` instead of `ip:203.0.113.9`. WebSocket messages
    /// are counted in their connection and not in a store.
    ///
    /// ```
    /// # use hivemind_core::store::Parts;
    /// # use hivemind_tower::{Limits, RateLimiter};
    /// let limiter = RateLimiter::new(Limits::new())?;
    /// let without_prefix = [("service", "shop"), ("endpoint", "*"), ("client", "203.0.113.9")];
    /// assert_eq!(limiter.counter(Parts { domain: ":http", entries: &without_prefix }), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn counter(&self, parts: Parts<'_>) -> Option<NamedCounter> {
        let limits = self.0.state.limits.load();
        if !limits.enabled {
            return None;
        }
        let values: Vec<&str> = parts.entries.iter().map(|(_, value)| *value).collect();
        if !parts.entries.iter().all(|entry| is_valid_entry(*entry)) {
            return None;
        }
        let bucket = bucket(&limits, parts, &values)?;
        // With global scope all services share one counter, which has a service name of its own.
        let service = parts.entries.first().filter(|(key, _)| *key == "service");
        let is_own_name = |(_, name): &(&str, &str)| bucket.service.as_deref().unwrap_or(name) == *name;
        service.is_none_or(is_own_name).then(|| NamedCounter {
            key: bucket.prefix.key(values),
            limit: bucket.limit,
            is_dry_run: bucket.dry_run,
        })
    }
}

/// Whether a charge can have this entry.
fn is_valid_entry((key, value): Entry<'_>) -> bool {
    match key {
        "client" => Client::is_valid_name(value),
        "address" => client::is_address(value),
        _ => true,
    }
}

fn bucket(limits: &ActiveLimits, parts: Parts<'_>, values: &[&str]) -> Option<Arc<Bucket>> {
    let kind = [LimitKind::Http, LimitKind::WsConnection, LimitKind::IpGuard]
        .into_iter()
        .find(|kind| kind.domain() == parts.domain)?;
    let has = |keys: &[&str]| parts.entries.iter().map(|(key, _)| *key).eq(keys.iter().copied());
    match (kind, values) {
        (LimitKind::IpGuard, [_]) if has(kind.keys()) => limits.guard.clone(),
        (LimitKind::IpGuard, [service, endpoint, _]) if has(&SCOPED_GUARD_KEYS) => {
            let service = limits.find_service(service)?;
            // The guard of connections has the name of their kind in place of an endpoint.
            let guarded_kind = if *endpoint == LimitKind::WsConnection.domain() {
                LimitKind::WsConnection
            } else {
                LimitKind::Http
            };
            service.find_by_name(guarded_kind, endpoint)?.guard.clone()
        }
        (LimitKind::Http, [service, endpoint, _]) if has(kind.keys()) => {
            limits.find_service(service)?.find_by_name(kind, endpoint).cloned()
        }
        (LimitKind::WsConnection, [service, _]) if has(kind.keys()) => {
            limits.find_service(service)?.find_by_name(kind, "").cloned()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::charge_plan::ChargePlan;
    use crate::client::Client;
    use crate::{Limits, PartialLimit, RateLimiter, ServiceLimits};
    use hivemind_core::Cost;
    use hivemind_core::store::{Op, Parts};
    use http::Method;
    use std::sync::Arc;

    fn limits() -> Limits {
        let shop = ServiceLimits::new("shop")
            .limit(PartialLimit::per_second(50))
            .endpoint("POST /login", PartialLimit::per_second(2))
            .websocket("/ws")
            .ws_connection(PartialLimit::per_second(3));
        // `blog` inherits all limits; unknown services are not found.
        Limits::new()
            .service(shop)
            .service(ServiceLimits::new("blog"))
            .ip_guard(PartialLimit::per_second(20).burst(20))
    }

    /// Covers every counter that any request is charged to.
    // Fails when scoped guards are looked up as the global guard.
    #[test]
    fn charged_counter_is_found_by_its_name() {
        let address = Some("203.0.113.9".parse().unwrap());
        let global = Limits::new().global_scope().ip_guard(PartialLimit::per_second(20).burst(20));
        let global = global.service(ServiceLimits::new("shop")).service(ServiceLimits::new("blog"));
        for limits in [limits(), global, limits().without_ip_guard()] {
            let limiter = RateLimiter::new(limits).unwrap();
            let resolved = limiter.0.state.limits.load();
            let mut found = 0;
            for name in ["shop", "blog"] {
                let service = resolved.service(name);
                let buckets = [
                    service.find(&Method::GET, "/"),
                    service.find(&Method::POST, "/login"),
                    service.find_connection(&Method::GET, "/ws"),
                ];
                let clients = [Client::by_address(address), Client::by_secret("bearer:", b"s", address)];
                for (bucket, client) in buckets.into_iter().flat_map(|of| clients.map(|client| (of, client)))
                {
                    let plan = ChargePlan::new(client, &Arc::from(name), bucket, resolved.guard.as_ref());
                    let names = plan.names();
                    for charge in plan.batch(&names, Op::Spend, [Cost::ONE; 2]) {
                        let counter = limiter.counter(charge.parts);
                        let counter = counter.unwrap_or_else(|| panic!("{:?}", charge.parts));
                        assert_eq!(
                            (counter.key, &counter.limit),
                            (charge.key, charge.limit),
                            "{:?}",
                            charge.parts
                        );
                        found += 1;
                    }
                }
            }
            assert!(found >= 12, "{found}");
        }
    }

    #[test]
    fn counters_without_charges_are_not_found() {
        let limiter = RateLimiter::new(limits()).unwrap();
        let whole = [("service", "shop"), ("endpoint", "*"), ("client", "ip:203.0.113.9")];
        let is_found =
            |domain, entries: &[(&str, &str)]| limiter.counter(Parts { domain, entries }).is_some();
        assert!(is_found(":http", &whole));
        let nowhere = [("service", "shop"), ("endpoint", "/nowhere"), ("client", "x")];
        let misspelt = [("service", "shpo"), ("endpoint", "*"), ("client", "ip:203.0.113.9")];
        let swapped = [("endpoint", "*"), ("service", "shop"), ("client", "x")];
        for (domain, entries) in [
            ("http", &whole[..]),
            (":ws_message", &[("service", "shop"), ("client", "x")]),
            (":ws_open", &[("service", "shop"), ("client", "x")]),
            (":http", &whole[..2]),
            (":http", &nowhere),
            (":http", &misspelt),
            (":http", &swapped),
            (":ip_guard", &whole),
            (":http", &[]),
        ] {
            assert!(!is_found(domain, entries), "{domain} {entries:?}");
        }
        limiter.reload(&limits().enabled(false)).unwrap();
        assert!(!is_found(":http", &whole), "with limits disabled");
    }
}
