//! A limit in force: what it admits, how its counters are named, and everything of
//! an answer that does not change from request to request, made once.

use crate::answer::usual_headers;
use crate::limits_error::LimitsError;
use crate::partial_limit::{Algorithm, Excess, PartialLimit};
use hivemind_core::store::{KeyPrefix, KeySeed};
use hivemind_core::{Limit, LimitError, Period, Rate};
use http::{HeaderMap, HeaderValue};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What a limit counts.
///
/// ```
/// use hivemind_tower::LimitKind;
///
/// assert_eq!(LimitKind::WsConnection.name(), "ws_connection");
/// assert_eq!(LimitKind::IpGuard.to_string(), "ip_guard");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LimitKind {
    /// Requests of one client to a service or one of its endpoints.
    Http,
    /// WebSocket connections that one client opens to one service.
    WsConnection,
    /// Messages of one WebSocket.
    WsMessage,
    /// WebSocket connections that one client has open to one service at once.
    WsOpen,
    /// Requests of one address, under whatever names.
    IpGuard,
}

impl LimitKind {
    /// Its name in events and attributes: `http`, `ws_connection`, `ws_message`, `ws_open` or `ip_guard`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::WsConnection => "ws_connection",
            Self::WsMessage => "ws_message",
            Self::WsOpen => "ws_open",
            Self::IpGuard => "ip_guard",
        }
    }

    /// Counters of two kinds never meet, nor those of a rule file's domain, which has no colon in front.
    pub(crate) const fn domain(self) -> &'static str {
        match self {
            Self::Http => ":http",
            Self::WsConnection => ":ws_connection",
            Self::WsMessage => ":ws_message",
            Self::WsOpen => ":ws_open",
            Self::IpGuard => ":ip_guard",
        }
    }

    /// Whether what is over its rate can be held back: a message has come already, and an address waits by
    /// the limits of its clients.
    const fn delays(self) -> bool {
        matches!(self, Self::Http | Self::WsConnection)
    }

    pub(crate) const fn keys(self) -> &'static [&'static str] {
        match self {
            Self::Http => &["service", "endpoint", "client"],
            Self::WsConnection | Self::WsMessage | Self::WsOpen => &["service", "client"],
            Self::IpGuard => &["address"],
        }
    }
}

impl fmt::Display for LimitKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The parts of a name of a counter of a guard of one place.
pub(crate) const GUARD_OF_PLACE: [&str; 3] = ["service", "endpoint", "address"];

/// A limit in force.
pub(crate) struct Bucket {
    pub(crate) kind: LimitKind,
    pub(crate) limit: Limit,
    /// The service that its counters are named after; none where it is whichever asks.
    pub(crate) service: Option<Box<str>>,
    /// The endpoint's pattern, or `*`.
    pub(crate) endpoint: Box<str>,
    pub(crate) prefix: KeyPrefix,
    pub(crate) dry_run: bool,
    /// What an address may spend of it under whatever names, where that is less than the guard of everything.
    pub(crate) guard: Option<Arc<Bucket>>,
    /// Of a guard: whether it is that of one place, and not of everything.
    pub(crate) is_of_place: bool,
    /// In delay mode, the part of a bucket's time to refill that holds nobody back.
    pub(crate) undelayed: Option<Duration>,
    pub(crate) policy: Policy,
}

/// What is told of a limit whatever was decided.
pub(crate) struct Policy {
    pub(crate) name: Box<str>,
    /// `"api";q=100;w=60`
    pub(crate) header: HeaderValue,
    /// `"api";r=`, to which a decision adds the rest.
    pub(crate) start: Box<str>,
    /// `100`
    pub(crate) limit: HeaderValue,
    /// The headers of the usual refusal, to which a decision adds the rest.
    pub(crate) refusal: HeaderMap,
}

/// Where a limit stands.
pub(crate) struct Place<'a> {
    pub(crate) kind: LimitKind,
    pub(crate) service: Option<&'a str>,
    pub(crate) endpoint: &'a str,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.service {
            None => write!(f, "the platform ({})", self.kind),
            Some(service) => write!(f, "`{service}` {} ({})", self.endpoint, self.kind),
        }
    }
}

impl Bucket {
    pub(crate) fn new(
        seed: &KeySeed,
        place: &Place<'_>,
        whole: PartialLimit,
        limit: Limit,
    ) -> Result<Self, LimitsError> {
        let prefix = KeyPrefix::new(seed, place.kind.domain(), place.kind.keys().iter().copied(), &limit, 0);
        let undelayed = match (whole.excess, &limit) {
            (None | Some(Excess::Reject), _) => None,
            (Some(Excess::Delay { .. }), _) if !place.kind.delays() => {
                return Err(LimitsError::Undelayable { place: place.to_string(), kind: place.kind });
            }
            (Some(Excess::Delay { after }), Limit::TokenBucket(_)) => Some(undelayed(&limit, after)),
            (Some(Excess::Delay { .. }), _) => {
                return Err(LimitsError::DelayedWindow { place: place.to_string(), kind: place.kind });
            }
        };
        Ok(Self {
            kind: place.kind,
            limit,
            service: place.service.map(Into::into),
            endpoint: place.endpoint.into(),
            prefix,
            dry_run: whole.dry_run.unwrap_or_default(),
            guard: None,
            is_of_place: false,
            undelayed,
            policy: Policy::new(place, &limit),
        })
    }

    /// A guard for what is charged to a bucket in this place, counted apart from all others.
    pub(crate) fn guard_of(
        seed: &KeySeed,
        place: &Place<'_>,
        whole: PartialLimit,
        limit: Limit,
    ) -> Result<Self, LimitsError> {
        // Connections are counted apart from requests, and so are their addresses.
        let endpoint = if place.kind == LimitKind::Http { place.endpoint } else { place.kind.domain() };
        let of = Place { kind: LimitKind::IpGuard, service: place.service, endpoint };
        let prefix = KeyPrefix::new(seed, of.kind.domain(), GUARD_OF_PLACE, &limit, 0);
        Ok(Self { prefix, is_of_place: true, ..Self::new(seed, &of, whole, limit)? })
    }

    /// How long an admitted request is held back, by what the bucket then misses.
    pub(crate) fn delay(&self, reset_after: Duration) -> Duration {
        self.undelayed.map_or(Duration::ZERO, |undelayed| reset_after.saturating_sub(undelayed))
    }

    /// Whether it admits less than another; one in dry run refuses nobody.
    pub(crate) fn is_stricter_than(&self, other: &Self) -> bool {
        let by_burst = || self.limit.burst().cmp(&other.limit.burst());
        let by_limit = || by_rate(&self.limit, &other.limit).then_with(by_burst);
        self.dry_run.cmp(&other.dry_run).then_with(by_limit).is_lt()
    }
}

/// Orders limits by their rate, the slowest first.
pub(crate) fn by_rate(one: &Limit, other: &Limit) -> Ordering {
    let requests_in_the_others =
        |one: &Limit, other: &Limit| u128::from(one.requests()) * other.period().length().as_nanos();
    requests_in_the_others(one, other).cmp(&requests_in_the_others(other, one))
}

/// The limit of a whole set of fields.
pub(crate) fn limit_of(whole: PartialLimit) -> Result<Limit, LimitError> {
    let period = Period::new(whole.window.unwrap_or_default())?;
    let requests = whole.requests.unwrap_or_default();
    match whole.algorithm.unwrap_or_default() {
        Algorithm::TokenBucket => {
            Limit::token_bucket(Rate::new(requests, period)?, whole.burst.unwrap_or_default())
        }
        Algorithm::FixedWindow => Ok(Limit::fixed_window(requests, period)),
        Algorithm::SlidingWindow => Ok(Limit::sliding_window(requests, period)),
    }
}

/// The time that the first request and `after` more take to be earned back.
fn undelayed(limit: &Limit, after: u32) -> Duration {
    let units = (u128::from(after) + 1) * limit.period().length().as_nanos();
    let nanos = units.div_ceil(u128::from(limit.requests().max(1)));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

impl Policy {
    fn new(place: &Place<'_>, limit: &Limit) -> Self {
        let service = place.service.unwrap_or("default");
        let name = match (place.kind, place.endpoint) {
            (LimitKind::Http, "*") => service.to_owned(),
            (LimitKind::Http, endpoint) => format!("{service} {endpoint}"),
            (LimitKind::IpGuard, _) => "address".to_owned(),
            (kind, _) => format!("{service} {kind}"),
        };
        let (length, requests) = (limit.period().length(), limit.requests());
        let seconds = length.as_secs() + u64::from(length.subsec_nanos() > 0);
        let text = format!("\"{name}\";q={requests};w={seconds}");
        // Names of services and endpoints are checked when they are read: ASCII, and nothing to escape.
        let header = HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static(""));
        let limit = HeaderValue::from(requests);
        Self {
            start: format!("\"{name}\";r=").into(),
            refusal: usual_headers(&header, &limit),
            header,
            limit,
            name: name.into(),
        }
    }
}
