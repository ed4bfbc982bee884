//! A counter found by its readable name, for those who look at one client: which one it is, and by which limit.

use crate::bucket::{Bucket, GUARD_OF_PLACE, LimitKind};
use crate::client::{self, Client};
use crate::limiter::RateLimiter;
use crate::resolved::Resolved;
use hivemind_core::store::{Key, Parts};
use hivemind_core::{Entry, Limit};
use std::sync::Arc;

/// A counter, by its name and the limits in force.
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
            // Connections are guarded apart from requests, under the name of their kind.
            let of = if *endpoint == LimitKind::WsConnection.domain() {
                LimitKind::WsConnection
            } else {
                LimitKind::Http
            };
            service.named(of, endpoint)?.guard.clone()
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

#[cfg(test)]
mod tests {
    use crate::client::Client;
    use crate::order::Order;
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
        // Known by its name alone: whatever is not known is misspelt.
        Limits::new()
            .service(shop)
            .service(ServiceLimits::new("blog"))
            .ip_guard(PartialLimit::per_second(20).burst(20))
    }

    /// Every counter that a request of anybody anywhere is charged to.
    // Fails with guards of one place looked for among those of everything.
    #[test]
    fn every_counter_that_is_charged_is_found_by_its_name() {
        let address = Some("203.0.113.9".parse().unwrap());
        let global = Limits::new().global_scope().ip_guard(PartialLimit::per_second(20).burst(20));
        let global = global.service(ServiceLimits::new("shop")).service(ServiceLimits::new("blog"));
        for limits in [limits(), global, limits().without_ip_guard()] {
            let limiter = RateLimiter::new(limits).unwrap();
            let resolved = limiter.0.limits.load();
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
                    let order = Order::new(client, &Arc::from(name), bucket, resolved.guard.as_ref());
                    let names = order.names();
                    for charge in order.batch(&names, Op::Spend, [Cost::ONE; 2]) {
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
        assert!(!is_found(":http", &whole), "with limits switched off");
    }
}
