//! Limits in force: every level merged, capped and checked, so that a request only
//! looks up its bucket. Immutable; a reload makes a new one and swaps it whole.

use crate::bucket::{Bucket, LimitKind, Place, by_rate, limit_of};
use crate::effective_limit::EffectiveLimit;
use crate::endpoints::{Endpoints, Pattern, WebSocketPaths};
use crate::level::Levels;
use crate::limits::{IpGuard, Limits};
use crate::limits_error::LimitsError;
use crate::partial_limit::{Algorithm, PartialLimit};
use crate::path::{decoded, folded};
use crate::service_limits::ServiceLimits;
use hivemind_core::store::KeySeed;
use http::Method;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Resolved {
    pub(crate) enabled: bool,
    services: HashMap<Box<str>, Service>,
    /// For services that have no limits of their own.
    platform: Service,
    pub(crate) guard: Option<Arc<Bucket>>,
    ip_guard: IpGuard,
    pub(crate) effective: Vec<EffectiveLimit>,
}

/// One service's limits in force.
pub(crate) struct Service {
    endpoints: Endpoints,
    any: Arc<Bucket>,
    pub(crate) websockets: WebSocketPaths,
    /// None if they are not counted: who opens one is charged like any other.
    pub(crate) ws_connection: Option<Arc<Bucket>>,
    /// None if they are not counted.
    pub(crate) ws_message: Option<Arc<Bucket>>,
    /// How many WebSocket connections of one client may be open at once.
    pub(crate) open: Option<Arc<Bucket>>,
    pub(crate) close_4429: bool,
}

impl Service {
    /// The bucket of a request. Where its path can be read in several ways, only its server knows which is
    /// right: the stricter one is charged, so that none is a way around.
    #[inline]
    pub(crate) fn find(&self, method: &Method, path: &str) -> &Arc<Bucket> {
        let find = |path: &str| self.endpoints.find(method, path).unwrap_or(&self.any);
        let as_it_came = find(path);
        if self.endpoints.is_empty() {
            return as_it_came;
        }
        let others = [decoded(path), folded(path)].into_iter().flatten().map(|path| find(&path));
        others.fold(
            as_it_came,
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
        // That it is an upgrade is only what a client says: it must not be a way around a stricter limit.
        let other = self.find(method, path);
        if other.is_stricter_than(connection) { other } else { connection }
    }

    /// The bucket of this kind and endpoint that requests are charged to.
    pub(crate) fn named(&self, kind: LimitKind, endpoint: &str) -> Option<&Arc<Bucket>> {
        match kind {
            LimitKind::Http if endpoint == "*" => Some(&self.any),
            LimitKind::Http => self.endpoints.named(endpoint),
            // Who has too many open was charged for one more connection; how many are open is no counter's.
            LimitKind::WsConnection | LimitKind::WsOpen => self.ws_connection.as_ref(),
            LimitKind::WsMessage | LimitKind::IpGuard => None,
        }
    }
}

impl Resolved {
    pub(crate) fn new(limits: &Limits, seed: &KeySeed) -> Result<Self, LimitsError> {
        // Twice: what is stricter than the guard is known when there is one, which is when all limits are.
        let mut widest = Resolving { limits, seed, guard: None, effective: Vec::new() };
        widest.services()?;
        let guard = widest.guard()?;
        let mut resolving = Resolving { limits, seed, guard: guard.clone(), effective: Vec::new() };
        let (platform, services) = resolving.services()?;
        resolving.effective.extend(widest.effective.pop().filter(|of| of.kind == LimitKind::IpGuard));
        Ok(Self {
            enabled: limits.enabled,
            services,
            platform,
            guard,
            ip_guard: limits.ip_guard,
            effective: resolving.effective,
        })
    }

    #[inline]
    pub(crate) fn service(&self, name: &str) -> &Service {
        self.services.get(name).unwrap_or(&self.platform)
    }

    /// A service that has limits of its own, or any where all have the platform's.
    pub(crate) fn known(&self, name: &str) -> Option<&Service> {
        self.services
            .get(name)
            .or_else(|| (self.services.is_empty() || name == "*").then_some(&self.platform))
    }

    /// How many WebSocket connections may be open from one address, under whatever names, where one client
    /// may have so many: wider by what its guard is; no number without a guard.
    pub(crate) fn open_per_address(&self, of_one: &Bucket) -> Option<u32> {
        let times = match self.ip_guard {
            IpGuard::Off => return None,
            IpGuard::Times(times) => times,
            IpGuard::Limit(_) => IpGuard::USUAL_TIMES,
        };
        Some(of_one.limit.requests().saturating_mul(times.max(1)))
    }

    /// The longest that any counter of these limits has something to say.
    pub(crate) fn longest_memory(&self) -> Duration {
        self.effective.iter().map(|limit| limit.limit.longest_memory()).max().unwrap_or_default()
    }
}

struct Resolving<'a> {
    limits: &'a Limits,
    seed: &'a KeySeed,
    /// The guard of everything, where it is known already.
    guard: Option<Arc<Bucket>>,
    effective: Vec<EffectiveLimit>,
}

impl Resolving<'_> {
    /// The platform, and all services by their names.
    fn services(&mut self) -> Result<(Service, HashMap<Box<str>, Service>), LimitsError> {
        let platform = self.service(None)?;
        let mut services = HashMap::with_capacity(self.limits.services.len());
        for service in &self.limits.services {
            services.insert(service.name.as_str().into(), self.service(Some(service))?);
        }
        Ok((platform, services))
    }

    fn service(&mut self, service: Option<&ServiceLimits>) -> Result<Service, LimitsError> {
        let limits = self.limits;
        let name = service.map(|service| service.name.as_str());
        if let Some(service) = service {
            self.check(service)?;
        }
        let level = |of: fn(&ServiceLimits) -> PartialLimit| service.map(of).unwrap_or_default();
        let whole = Levels::new(level(|service| service.limit), limits.default, Limits::HTTP);
        // One bucket over all services is named after none of them.
        let counted_for = if limits.global_scope { Some("*") } else { name };
        let any = Place { kind: LimitKind::Http, service: counted_for, endpoint: "*" };
        let any = self.bucket(&any, &whole)?;
        let mut endpoints = Vec::new();
        for endpoint in service.iter().flat_map(|service| &service.endpoints) {
            let place = Place { kind: LimitKind::Http, service: name, endpoint: &endpoint.name };
            let bucket = self.bucket(&place, &Levels { endpoint: endpoint.limit, ..whole })?;
            if let Some(told) = self.effective.last_mut() {
                told.patterns.clone_from(&endpoint.patterns);
            }
            for text in &endpoint.patterns {
                endpoints.push((Pattern::parse(name.unwrap_or_default(), text)?, Arc::clone(&bucket)));
            }
        }
        let of_kind = |kind| Place { kind, service: name, endpoint: "*" };
        let connection =
            Levels::new(level(|service| service.ws_connection), limits.ws_connection, Limits::WS_CONNECTION);
        let message = Levels::new(level(|service| service.ws_message), limits.ws_message, Limits::WS_MESSAGE);
        let most = service.and_then(|service| service.max_open);
        // Counted as they come and go; as a limit it is only told of.
        let most = most.map(|most| PartialLimit::per_second(most).algorithm(Algorithm::FixedWindow));
        let most = most.map(|service| Levels { service, ..Levels::default() });
        let open = most.map(|most| self.bucket(&of_kind(LimitKind::WsOpen), &most)).transpose()?;
        let paths = service.map_or(&[] as &[String], |service| &service.websockets);
        let anywhere = service.is_some_and(|service| service.websocket_anywhere);
        let counts = service.map(|service| service.counts).unwrap_or_default();
        let is_counted = |own: Option<bool>, all: Option<bool>| own.or(all).unwrap_or(true);
        let connection = is_counted(counts.connections, limits.counts.connections).then_some(connection);
        let message = is_counted(counts.messages, limits.counts.messages).then_some(message);
        let mut counted = |kind, levels: Option<Levels>| {
            levels.map(|levels| self.bucket(&of_kind(kind), &levels)).transpose()
        };
        Ok(Service {
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
                    "use 1 to 64 ASCII letters, digits, `-`, `_` and `.`, since it is told in headers",
                ));
            }
            if !names.insert(&endpoint.name) {
                return Err(wrong("another one has it, and they would share their buckets"));
            }
        }
        let has_own = service.limit != PartialLimit::new() || !service.endpoints.is_empty();
        if self.limits.global_scope && has_own {
            return Err(LimitsError::GlobalScope { service: name.to_owned() });
        }
        Ok(())
    }

    fn bucket(&mut self, place: &Place<'_>, levels: &Levels) -> Result<Arc<Bucket>, LimitsError> {
        let whole = levels.whole();
        let wrong = |error| LimitsError::Limit { place: place.to_string(), kind: place.kind, error };
        let configured = limit_of(whole).map_err(wrong)?;
        let within = |value: Option<u32>, max: Option<u32>| match (value, max) {
            (Some(value), Some(max)) => Some(value.min(max)),
            _ => value,
        };
        let capped = PartialLimit {
            requests: within(whole.requests, self.limits.max_requests),
            burst: within(whole.burst, self.limits.max_burst),
            ..whole
        };
        let limit = limit_of(capped).map_err(wrong)?;
        self.effective.push(EffectiveLimit::new(place, levels, configured, limit));
        let mut bucket = Bucket::new(self.seed, place, whole, limit)?;
        bucket.guard = self.own_guard(place, &bucket)?;
        Ok(Arc::new(bucket))
    }

    /// The guard of what is charged to a bucket, where it is stricter than that of everything: else whoever makes
    /// up names could spend at a strict endpoint what a generous one allows.
    fn own_guard(&self, place: &Place<'_>, bucket: &Bucket) -> Result<Option<Arc<Bucket>>, LimitsError> {
        let times = match self.limits.ip_guard {
            IpGuard::Off => return Ok(None),
            IpGuard::Times(times) => times,
            IpGuard::Limit(_) => IpGuard::USUAL_TIMES,
        };
        let (Some(all), LimitKind::Http | LimitKind::WsConnection) = (&self.guard, place.kind) else {
            return Ok(None);
        };
        // What refuses nobody is guarded by what does.
        if bucket.dry_run {
            return Ok(None);
        }
        let limit = &bucket.limit;
        let whole = times_as_wide(limit.requests(), limit.period().length(), limit.burst(), times);
        let whole = whole.dry_run(all.dry_run);
        let wrong = |error| LimitsError::Limit { place: place.to_string(), kind: place.kind, error };
        let guard = Bucket::guard_of(self.seed, place, whole, limit_of(whole).map_err(wrong)?)?;
        let (rate, burst) = (by_rate(&guard.limit, &all.limit), guard.limit.burst().cmp(&all.limit.burst()));
        // Stricter in one way and wider in the other would be a way around the guard of everything.
        let is_stricter = rate.is_le() && burst.is_le() && (rate.is_lt() || burst.is_lt());
        Ok(is_stricter.then(|| Arc::new(guard)))
    }

    /// After all others, since it is wide enough for the widest of them.
    fn guard(&mut self) -> Result<Option<Arc<Bucket>>, LimitsError> {
        let levels = match self.limits.ip_guard {
            IpGuard::Off => return Ok(None),
            IpGuard::Limit(platform) => {
                Levels { platform, built_in: Limits::HTTP.requests(1_000).burst(1_000), ..Levels::default() }
            }
            IpGuard::Times(times) => Levels { built_in: self.times_the_widest(times), ..Levels::default() },
        };
        let whole = levels.whole();
        let place = Place { kind: LimitKind::IpGuard, service: None, endpoint: "*" };
        let limit = limit_of(whole).map_err(|error| LimitsError::Limit {
            place: place.to_string(),
            kind: place.kind,
            error,
        })?;
        self.effective.push(EffectiveLimit::new(&place, &levels, limit, limit));
        Bucket::new(self.seed, &place, whole, limit).map(|guard| Some(Arc::new(guard)))
    }

    fn times_the_widest(&self, times: u32) -> PartialLimit {
        let http = || self.effective.iter().filter(|limit| limit.kind == LimitKind::Http).map(|of| of.limit);
        let widest = http().max_by(by_rate);
        let (requests, window) =
            widest.map_or((0, Duration::from_secs(60)), |limit| (limit.requests(), limit.period().length()));
        let burst = http().map(|limit| limit.burst()).max().unwrap_or_default();
        times_as_wide(requests, window, burst, times)
    }
}

/// A bucket that admits so many times as much.
fn times_as_wide(requests: u32, window: Duration, burst: u32, times: u32) -> PartialLimit {
    PartialLimit::new()
        .requests(requests.saturating_mul(times).max(1))
        .window(window)
        // More than a bucket can hold is as good as what it can.
        .burst(burst.saturating_mul(times).clamp(1, i32::MAX.cast_unsigned()))
        .algorithm(Algorithm::TokenBucket)
}

fn is_name(name: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    (1..=64).contains(&name.len()) && name.bytes().all(is_plain)
}
