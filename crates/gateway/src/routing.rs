//! Routing: the service of a request, by its host and then by the longest path prefix. A table is immutable; a reload
//! replaces it, and a request keeps the service it found.

use super::dial::{DialContext, DialError, UpstreamAddress};
use super::failure::Failure;
use super::upstream::Upstream;
use crate::settings::{ForwardedHeaders, HostHeader, Routing, ServiceSettings, Timeouts};
use hivemind_tower::path::normalize;
use hivemind_tower::{RateLimiter, ServiceLimiter};
use http::HeaderValue;
use std::cell::Cell;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::sync::Arc;

/// Pings and pongs of a WebSocket client in a second, unless configured.
const PINGS_PER_SECOND: NonZeroU32 = NonZeroU32::new(20).unwrap();

/// All services.
pub(super) struct RoutingTable {
    /// By host in lower case.
    hosts: HashMap<Box<str>, Paths>,
    /// `.example.org` for `*.example.org`, longest first.
    wildcards: Vec<(Box<str>, Paths)>,
    any: Paths,
    upstreams: Vec<Arc<Upstream>>,
}

/// The services of one host, longest prefix first.
#[derive(Default)]
struct Paths(Vec<Arc<RoutedService>>);

/// One service.
pub(super) struct RoutedService {
    pub(super) gate: ServiceLimiter,
    prefix: Box<str>,
    pub(super) strips_prefix: bool,
    upstreams: Box<[Arc<Upstream>]>,
    pub(super) host: HostRewrite,
    pub(super) forwarded: ForwardedHeaders,
    pub(super) max_body: Option<u64>,
    pub(super) timeouts: Timeouts,
    pub(super) pings_per_second: NonZeroU32,
}

/// The `Host` header for the upstream.
pub(super) enum HostRewrite {
    Keep,
    Upstream,
    Set(HeaderValue),
}

impl RoutingTable {
    /// Builds the table from the settings. Upstreams that existed before keep their connections.
    pub(super) fn new(
        routing: &Routing,
        limiter: &RateLimiter,
        before: Option<&Self>,
        dial_context: &DialContext,
        lanes: usize,
    ) -> Result<Self, DialError> {
        let known = before.map_or(&[] as &[_], |before| &before.upstreams);
        let mut upstreams: Vec<Arc<Upstream>> = Vec::new();
        let (mut hosts, mut any) = (HashMap::<Box<str>, Paths>::new(), Paths::default());
        let pings = routing.platform.websocket.pings_per_second.unwrap_or(PINGS_PER_SECOND);
        for settings in &routing.services {
            let mut of_service = Vec::with_capacity(settings.upstreams.len());
            for upstream in &settings.upstreams {
                let (http2, ca) = (settings.http2, settings.upstream_ca.clone());
                let address = UpstreamAddress { upstream: upstream.clone(), http2, ca };
                let same = |of: &&Arc<Upstream>| of.address == address;
                let upstream = match known.iter().chain(&upstreams).find(same) {
                    Some(upstream) => Arc::clone(upstream),
                    None => Arc::new(Upstream::new(address, dial_context, lanes)?),
                };
                if !upstreams.iter().any(|of| Arc::ptr_eq(of, &upstream)) {
                    upstreams.push(Arc::clone(&upstream));
                }
                of_service.push(upstream);
            }
            let service = Arc::new(RoutedService::new(settings, limiter, of_service, pings));
            for host in &settings.hosts {
                hosts.entry(host.as_str().into()).or_default().0.push(Arc::clone(&service));
            }
            if settings.hosts.is_empty() {
                any.0.push(service);
            }
        }
        any.sort();
        hosts.values_mut().for_each(Paths::sort);
        let mut wildcards: Vec<(Box<str>, Paths)> = Vec::new();
        for (host, paths) in hosts.extract_if(|host, _| host.starts_with("*.")) {
            wildcards.push((host.trim_start_matches('*').into(), paths));
        }
        wildcards.sort_by_key(|(host, _)| std::cmp::Reverse(host.len()));
        Ok(Self { hosts, wildcards, any, upstreams })
    }

    /// The service for a host and a path. A path that the upstream may read as one of another service is rejected: it
    /// would bypass that service's limits, or leave the prefix.
    pub(super) fn find(&self, host: &str, path: &str) -> Result<&Arc<RoutedService>, Failure> {
        let service = self.at(host, path).ok_or(Failure::NoService)?;
        match normalize(path) {
            None => Ok(service),
            Some(path) => match self.at(host, &path) {
                Some(other) if Arc::ptr_eq(other, service) => Ok(service),
                _ => Err(Failure::BadTarget),
            },
        }
    }

    fn at(&self, host: &str, path: &str) -> Option<&Arc<RoutedService>> {
        if self.hosts.is_empty() && self.wildcards.is_empty() {
            return self.any.find(path);
        }
        let lower = host.to_ascii_lowercase();
        let exact = self.hosts.get(lower.as_str()).and_then(|paths| paths.find(path));
        exact
            .or_else(|| {
                let below = |of: &str| lower.len() > of.len() && lower.ends_with(of);
                self.wildcards.iter().filter(|(of, _)| below(of)).find_map(|(_, paths)| paths.find(path))
            })
            .or_else(|| self.any.find(path))
    }
}

impl Paths {
    fn sort(&mut self) {
        self.0.sort_by_key(|service| std::cmp::Reverse(service.prefix.len()));
    }

    fn find(&self, path: &str) -> Option<&Arc<RoutedService>> {
        self.0.iter().find(|service| service.has(path))
    }
}

impl RoutedService {
    fn new(
        settings: &ServiceSettings,
        limiter: &RateLimiter,
        upstreams: Vec<Arc<Upstream>>,
        pings_per_second: NonZeroU32,
    ) -> Self {
        let host = match &settings.host_header {
            HostHeader::Keep => HostRewrite::Keep,
            HostHeader::Upstream => HostRewrite::Upstream,
            HostHeader::Set(host) => HeaderValue::from_str(host).map_or(HostRewrite::Keep, HostRewrite::Set),
        };
        Self {
            gate: limiter.service_limiter(&settings.id),
            prefix: settings.path_prefix.as_str().into(),
            strips_prefix: settings.strip_prefix && settings.path_prefix != "/",
            upstreams: upstreams.into(),
            host,
            forwarded: settings.forwarded,
            max_body: settings.max_body,
            timeouts: settings.timeouts,
            pings_per_second: settings.websocket.pings_per_second.unwrap_or(pings_per_second),
        }
    }

    /// Whether a path is the prefix or below it. `*`, the whole server, is only below `/`.
    fn has(&self, path: &str) -> bool {
        if &*self.prefix == "/" {
            return true;
        }
        path.strip_prefix(&*self.prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The path and query for the upstream.
    pub(super) fn stripped<'a>(&self, target: &'a str) -> &'a str {
        if self.strips_prefix { target.strip_prefix(&*self.prefix).unwrap_or(target) } else { target }
    }

    pub(super) fn has_one_upstream(&self) -> bool {
        self.upstreams.len() == 1
    }

    /// The less loaded of two random upstreams. Upstreams that failed recently are used only if all have; one that
    /// was tried for this request is not tried again.
    pub(super) fn choose(&self, random: &RandomChoice, tried: &[Arc<Upstream>]) -> Option<&Arc<Upstream>> {
        if let [only] = &*self.upstreams {
            return tried.is_empty().then_some(only);
        }
        let now = super::now();
        let is_new = |of: &&Arc<Upstream>| !tried.iter().any(|other| Arc::ptr_eq(of, other));
        let new = || self.upstreams.iter().filter(is_new);
        let well = || new().filter(|of| !of.is_skipped(now));
        let count = well().count();
        if count == 0 {
            return new().min_by_key(|of| of.load());
        }
        let first = random.below(count);
        // A different one, if there is one.
        let second = (first + 1 + random.below(count.saturating_sub(1).max(1))) % count;
        let pair = [well().nth(first), well().nth(second)];
        pair.into_iter().flatten().min_by_key(|of| of.load())
    }
}

/// Random numbers of one thread: good enough for load balancing, unsuitable for secrets.
pub(super) struct RandomChoice(Cell<u64>);

impl RandomChoice {
    pub(super) fn new() -> Self {
        Self(Cell::new(RandomState::new().hash_one(0_u8) | 1))
    }

    /// A number below this one, or zero.
    fn below(&self, most: usize) -> usize {
        // Marsaglia's xorshift.
        let mut state = self.0.get();
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        self.0.set(state);
        usize::try_from(state >> 33).unwrap_or_default() % most.max(1)
    }
}

#[cfg(test)]
mod tests;
