//! Active limits: the configured limits of all levels merged, capped and validated.
//!
//! A request only looks up its bucket. The value is immutable; a reload builds a new one and swaps it.

use crate::bucket::{Bucket, build_limit, cmp_by_rate};
use crate::effective_limit::EffectiveLimit;
use crate::endpoints::{EndpointPattern, Endpoints, WebSocketPaths};
use crate::level::LimitLevels;
use crate::limit_kind::{LimitKind, LimitScope};
use crate::limits::{IpGuardLimit, Limits};
use crate::limits_error::LimitsError;
use crate::partial_limit::{Algorithm, PartialLimit};
use crate::path::{decode_segments, normalize};
use crate::service_limits::ServiceLimits;
use hivemind_core::store::KeySeed;
use http::Method;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct ActiveLimits {
    pub(crate) enabled: bool,
    services: HashMap<Box<str>, ServiceBuckets>,
    /// For services without limits of their own.
    platform: ServiceBuckets,
    pub(crate) guard: Option<Arc<Bucket>>,
    ip_guard: IpGuardLimit,
    pub(crate) effective: Vec<EffectiveLimit>,
}

/// The active limits of one service.
pub(crate) struct ServiceBuckets {
    endpoints: Endpoints,
    any: Arc<Bucket>,
    pub(crate) websockets: WebSocketPaths,
    /// `None` if connections are not counted: an upgrade is charged like any other request.
    pub(crate) ws_connection: Option<Arc<Bucket>>,
    /// `None` if messages are not counted.
    pub(crate) ws_message: Option<Arc<Bucket>>,
    /// The maximum of open WebSocket connections of one client.
    pub(crate) open: Option<Arc<Bucket>>,
    pub(crate) close_4429: bool,
}

impl ServiceBuckets {
    /// The bucket of a request. If its path can be read in several ways, only the inner server knows the right
    /// one: the strictest limit is charged, so that no spelling bypasses it.
    #[inline]
    pub(crate) fn find(&self, method: &Method, path: &str) -> &Arc<Bucket> {
        let find = |path: &str| self.endpoints.find(method, path).unwrap_or(&self.any);
        let verbatim = find(path);
        if self.endpoints.is_empty() {
            return verbatim;
        }
        let others = [decode_segments(path), normalize(path)].into_iter().flatten().map(|path| find(&path));
        others.fold(
            verbatim,
            |strictest, other| {
                if other.is_stricter_than(strictest) { other } else { strictest }
            },
        )
    }

    /// The bucket of a request that opens a WebSocket.
    pub(crate) fn find_connection(&self, method: &Method, path: &str) -> &Arc<Bucket> {
        let Some(connection) = &self.ws_connection else { return self.find(method, path) };
        if !self.websockets.is_anywhere() {
            return connection;
        }
        // The client chooses the upgrade headers: they must not bypass a stricter limit.
        let other = self.find(method, path);
        if other.is_stricter_than(connection) { other } else { connection }
    }

    /// The bucket of this kind and endpoint that requests are charged to.
    pub(crate) fn find_by_name(&self, kind: LimitKind, endpoint: &str) -> Option<&Arc<Bucket>> {
        match kind {
            LimitKind::Http if endpoint == "*" => Some(&self.any),
            LimitKind::Http => self.endpoints.find_by_name(endpoint),
            // A refusal over open connections was charged as a connection; open connections are not in the store.
            LimitKind::WsConnection | LimitKind::WsOpen => self.ws_connection.as_ref(),
            LimitKind::WsMessage | LimitKind::IpGuard => None,
        }
    }
}

impl Limits {
    /// Validates the limits.
    ///
    /// ```
    /// # use hivemind_tower::{Limits, PartialLimit};
    /// let error = Limits::new().platform(PartialLimit::new().requests(0)).check().unwrap_err();
    /// assert!(error.to_string().contains("a rate must be at least 1 request"));
    /// ```
    ///
    /// # Errors
    /// The first problem found.
    pub fn check(&self) -> Result<(), LimitsError> {
        ActiveLimits::new(self, &KeySeed::new([0; 16])).map(drop)
    }
}

impl ActiveLimits {
    pub(crate) fn new(limits: &Limits, seed: &KeySeed) -> Result<Self, LimitsError> {
        // Two passes: the global guard depends on all limits, and the scoped guards on the global one.
        let mut first_pass = LimitResolver { limits, seed, guard: None, effective: Vec::new() };
        first_pass.services()?;
        let guard = first_pass.guard()?;
        let mut second_pass = LimitResolver { limits, seed, guard: guard.clone(), effective: Vec::new() };
        let (platform, services) = second_pass.services()?;
        second_pass.effective.extend(first_pass.effective.pop().filter(|of| of.kind == LimitKind::IpGuard));
        Ok(Self {
            enabled: limits.enabled,
            services,
            platform,
            guard,
            ip_guard: limits.ip_guard,
            effective: second_pass.effective,
        })
    }

    #[inline]
    pub(crate) fn service(&self, name: &str) -> &ServiceBuckets {
        self.services.get(name).unwrap_or(&self.platform)
    }

    /// A configured service. Without configured services, any name is valid and gets the platform's limits.
    pub(crate) fn find_service(&self, name: &str) -> Option<&ServiceBuckets> {
        self.services
            .get(name)
            .or_else(|| (self.services.is_empty() || name == "*").then_some(&self.platform))
    }

    /// The maximum of open WebSocket connections of one address: that of one client times the factor of its
    /// guard. `None` without a guard.
    pub(crate) fn open_per_address(&self, client_limit: &Bucket) -> Option<u32> {
        let times = match self.ip_guard {
            IpGuardLimit::Off => return None,
            IpGuardLimit::Times(times) => times,
            IpGuardLimit::Limit(_) => IpGuardLimit::DEFAULT_TIMES,
        };
        Some(client_limit.limit.requests().saturating_mul(times.max(1)))
    }

    /// The longest time that any counter of these limits has to be kept.
    pub(crate) fn longest_memory(&self) -> Duration {
        self.effective.iter().map(|limit| limit.limit.longest_memory()).max().unwrap_or_default()
    }
}

/// Builds the buckets of all services.
struct LimitResolver<'a> {
    limits: &'a Limits,
    seed: &'a KeySeed,
    /// The global guard; `None` in the first pass.
    guard: Option<Arc<Bucket>>,
    effective: Vec<EffectiveLimit>,
}

impl LimitResolver<'_> {
    /// The platform, and all services by name.
    fn services(&mut self) -> Result<(ServiceBuckets, HashMap<Box<str>, ServiceBuckets>), LimitsError> {
        let platform = self.service(None)?;
        let mut services = HashMap::with_capacity(self.limits.services.len());
        for service in &self.limits.services {
            services.insert(service.name.as_str().into(), self.service(Some(service))?);
        }
        Ok((platform, services))
    }

    fn service(&mut self, service: Option<&ServiceLimits>) -> Result<ServiceBuckets, LimitsError> {
        let limits = self.limits;
        let name = service.map(|service| service.name.as_str());
        if let Some(service) = service {
            self.check(service)?;
        }
        let level = |of: fn(&ServiceLimits) -> PartialLimit| service.map(of).unwrap_or_default();
        let merged = LimitLevels::new(level(|service| service.limit), limits.default, Limits::HTTP);
        // A global bucket has no service in its name.
        let counted_for = if limits.global_scope { Some("*") } else { name };
        let any = LimitScope { kind: LimitKind::Http, service: counted_for, endpoint: "*" };
        let any = self.bucket(&any, &merged)?;
        let mut endpoints = Vec::new();
        for endpoint in service.iter().flat_map(|service| &service.endpoints) {
            let scope = LimitScope { kind: LimitKind::Http, service: name, endpoint: &endpoint.name };
            let bucket = self.bucket(&scope, &LimitLevels { endpoint: endpoint.limit, ..merged })?;
            if let Some(effective) = self.effective.last_mut() {
                effective.patterns.clone_from(&endpoint.patterns);
            }
            for text in &endpoint.patterns {
                endpoints
                    .push((EndpointPattern::parse(name.unwrap_or_default(), text)?, Arc::clone(&bucket)));
            }
        }
        let of_kind = |kind| LimitScope { kind, service: name, endpoint: "*" };
        let connection = LimitLevels::new(
            level(|service| service.ws_connection),
            limits.ws_connection,
            Limits::WS_CONNECTION,
        );
        let message =
            LimitLevels::new(level(|service| service.ws_message), limits.ws_message, Limits::WS_MESSAGE);
        let max_open = service.and_then(|service| service.max_open);
        // Open connections are counted by `OpenConnections`; this limit only names the maximum.
        let max_open = max_open.map(|max| PartialLimit::per_second(max).algorithm(Algorithm::FixedWindow));
        let max_open = max_open.map(|service| LimitLevels { service, ..LimitLevels::default() });
        let open = max_open.map(|max| self.bucket(&of_kind(LimitKind::WsOpen), &max)).transpose()?;
        let paths = service.map_or(&[] as &[String], |service| &service.websockets);
        let anywhere = service.is_some_and(|service| service.websocket_anywhere);
        let counts = service.map(|service| service.counts).unwrap_or_default();
        let is_counted = |own: Option<bool>, all: Option<bool>| own.or(all).unwrap_or(true);
        let connection = is_counted(counts.connections, limits.counts.connections).then_some(connection);
        let message = is_counted(counts.messages, limits.counts.messages).then_some(message);
        let mut counted = |kind, levels: Option<LimitLevels>| {
            levels.map(|levels| self.bucket(&of_kind(kind), &levels)).transpose()
        };
        Ok(ServiceBuckets {
            endpoints: Endpoints::new(name.unwrap_or_default(), &endpoints)?,
            any,
            websockets: WebSocketPaths::new(name.unwrap_or_default(), paths, anywhere)?,
            ws_connection: counted(LimitKind::WsConnection, connection)?,
            ws_message: counted(LimitKind::WsMessage, message)?,
            open,
            close_4429: service.is_some_and(|service| service.close_4429),
        })
    }

    fn check(&self, service: &ServiceLimits) -> Result<(), LimitsError> {
        let name = service.name.as_str();
        if !is_name(name) {
            return Err(LimitsError::ServiceName { name: name.chars().take(64).collect() });
        }
        let mut names = HashSet::new();
        for endpoint in service.endpoints.iter().filter(|endpoint| endpoint.is_named) {
            let wrong = |reason| LimitsError::EndpointName {
                service: name.to_owned(),
                name: endpoint.name.chars().take(64).collect(),
                reason,
            };
            if !is_name(&endpoint.name) {
                return Err(wrong(
                    "use 1 to 64 ASCII letters, digits, `-`, `_` and `.`, because it is sent in headers",
                ));
            }
            if !names.insert(&endpoint.name) {
                return Err(wrong("another endpoint has this name, and they would share counters"));
            }
        }
        let has_own = service.limit != PartialLimit::new() || !service.endpoints.is_empty();
        if self.limits.global_scope && has_own {
            return Err(LimitsError::GlobalScope { service: name.to_owned() });
        }
        Ok(())
    }

    fn bucket(&mut self, scope: &LimitScope<'_>, levels: &LimitLevels) -> Result<Arc<Bucket>, LimitsError> {
        let merged = levels.merged();
        let wrong = |error| LimitsError::Limit { place: scope.to_string(), kind: scope.kind, error };
        let configured = build_limit(merged).map_err(wrong)?;
        let within = |value: Option<u32>, max: Option<u32>| match (value, max) {
            (Some(value), Some(max)) => Some(value.min(max)),
            _ => value,
        };
        let capped = PartialLimit {
            requests: within(merged.requests, self.limits.max_requests),
            burst: within(merged.burst, self.limits.max_burst),
            ..merged
        };
        let limit = build_limit(capped).map_err(wrong)?;
        self.effective.push(EffectiveLimit::new(scope, levels, configured, limit));
        let mut bucket = Bucket::new(self.seed, scope, merged, limit)?;
        bucket.guard = self.scoped_guard(scope, &bucket)?;
        Ok(Arc::new(bucket))
    }

    /// The guard of one bucket, if it is stricter than the global one. Otherwise a client that makes up names
    /// could spend at a strict endpoint what the global guard allows for a wide one.
    fn scoped_guard(
        &self,
        scope: &LimitScope<'_>,
        bucket: &Bucket,
    ) -> Result<Option<Arc<Bucket>>, LimitsError> {
        let times = match self.limits.ip_guard {
            IpGuardLimit::Off => return Ok(None),
            IpGuardLimit::Times(times) => times,
            IpGuardLimit::Limit(_) => IpGuardLimit::DEFAULT_TIMES,
        };
        let (Some(global), LimitKind::Http | LimitKind::WsConnection) = (&self.guard, scope.kind) else {
            return Ok(None);
        };
        // A limit in dry run refuses nothing; the global guard still applies.
        if bucket.dry_run {
            return Ok(None);
        }
        let limit = &bucket.limit;
        let merged = scaled_limit(limit.requests(), limit.period().length(), limit.burst(), times);
        let merged = merged.dry_run(global.dry_run);
        let wrong = |error| LimitsError::Limit { place: scope.to_string(), kind: scope.kind, error };
        let guard = Bucket::new_scoped_guard(self.seed, scope, merged, build_limit(merged).map_err(wrong)?)?;
        let (rate, burst) =
            (cmp_by_rate(&guard.limit, &global.limit), guard.limit.burst().cmp(&global.limit.burst()));
        // A guard that is wider in one dimension would bypass the global one.
        let is_stricter = rate.is_le() && burst.is_le() && (rate.is_lt() || burst.is_lt());
        Ok(is_stricter.then(|| Arc::new(guard)))
    }

    /// The global guard. Built after all other limits, because it has to admit the widest of them.
    fn guard(&mut self) -> Result<Option<Arc<Bucket>>, LimitsError> {
        let levels = match self.limits.ip_guard {
            IpGuardLimit::Off => return Ok(None),
            IpGuardLimit::Limit(platform) => LimitLevels {
                platform,
                built_in: Limits::HTTP.requests(1_000).burst(1_000),
                ..LimitLevels::default()
            },
            IpGuardLimit::Times(times) => {
                LimitLevels { built_in: self.scaled_widest_limit(times), ..LimitLevels::default() }
            }
        };
        let merged = levels.merged();
        let scope = LimitScope { kind: LimitKind::IpGuard, service: None, endpoint: "*" };
        let limit = build_limit(merged).map_err(|error| LimitsError::Limit {
            place: scope.to_string(),
            kind: scope.kind,
            error,
        })?;
        self.effective.push(EffectiveLimit::new(&scope, &levels, limit, limit));
        Bucket::new(self.seed, &scope, merged, limit).map(|guard| Some(Arc::new(guard)))
    }

    fn scaled_widest_limit(&self, times: u32) -> PartialLimit {
        let http = || self.effective.iter().filter(|limit| limit.kind == LimitKind::Http).map(|of| of.limit);
        let widest = http().max_by(cmp_by_rate);
        let (requests, window) =
            widest.map_or((0, Duration::from_secs(60)), |limit| (limit.requests(), limit.period().length()));
        let burst = http().map(|limit| limit.burst()).max().unwrap_or_default();
        scaled_limit(requests, window, burst, times)
    }
}

/// A token bucket with `times` the requests and burst.
fn scaled_limit(requests: u32, window: Duration, burst: u32, times: u32) -> PartialLimit {
    PartialLimit::new()
        .requests(requests.saturating_mul(times).max(1))
        .window(window)
        // Clamped to the largest bucket.
        .burst(burst.saturating_mul(times).clamp(1, i32::MAX.cast_unsigned()))
        .algorithm(Algorithm::TokenBucket)
}

fn is_name(name: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    (1..=64).contains(&name.len()) && name.bytes().all(is_plain)
}
