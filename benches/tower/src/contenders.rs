//! Contenders: axum alone, and axum behind each layer with a limit that is never reached or one that is used up.
//! Layers are inside the router, as their guides show, and before it, where a refusal is not routed.

use crate::asking::{ask, asked, request, request_from, request_with_token};
use crate::serving::served;
use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use axum::routing::get;
use governor::middleware::StateInformationMiddleware;
use hivemind_benches::keys::Random;
use hivemind_benches::rounds::Contender;
use hivemind_tower::response::ResponseBody;
use hivemind_tower::{Limits, PartialLimit, RateLimitLayer};
use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::time::Duration;
use tower::util::MapResponse;
use tower::{Layer, Service};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::PeerIpKeyExtractor;

/// More requests than a benchmark sends.
const PLENTY: u32 = 1_000_000_000;
/// The number of clients.
const MANY_CLIENTS: u32 = 100_000;

const PASSED: StatusCode = StatusCode::OK;
const REFUSED: StatusCode = StatusCode::TOO_MANY_REQUESTS;

type Theirs = GovernorLayer<PeerIpKeyExtractor, StateInformationMiddleware, Body>;

/// All contenders, in the order of their turns.
pub const NAMES: [&str; 23] = [
    "bare",
    "ours-pass",
    "ours-refused",
    "ours-off",
    "governor-pass",
    "governor-refused",
    "ours-pass-before",
    "ours-refused-before",
    "ours-off-before",
    "governor-pass-before",
    "governor-refused-before",
    "bare-token",
    "ours-token",
    "bare-many",
    "ours-many",
    "governor-many",
    "served-bare",
    "served-ours-pass",
    "served-ours-pass-before",
    "served-ours-refused",
    "served-ours-refused-before",
    "served-governor-pass",
    "served-governor-refused",
];

/// The contender of this name.
#[must_use]
pub fn of(name: &str) -> Option<Contender<'static>> {
    let inside = |limits| bare().layer(ours(limits));
    let before = |limits| ours(limits).layer(bare());
    let off = || plenty().enabled(false);
    Some(match name {
        "bare" => asked(name, bare(), PASSED, request),
        "ours-pass" => asked(name, inside(plenty()), PASSED, request),
        "ours-refused" => asked(name, used_up(inside(scarce())), REFUSED, request),
        "ours-off" => asked(name, inside(off()), PASSED, request),
        "governor-pass" => asked(name, bare().layer(theirs(true)), PASSED, request),
        "governor-refused" => asked(name, used_up(bare().layer(theirs(false))), REFUSED, request),
        "ours-pass-before" => asked(name, before(plenty()), PASSED, request),
        "ours-refused-before" => asked(name, used_up(before(scarce())), REFUSED, request),
        "ours-off-before" => asked(name, before(off()), PASSED, request),
        "governor-pass-before" => asked(name, theirs(true).layer(bare()), PASSED, request),
        "governor-refused-before" => asked(name, used_up(theirs(false).layer(bare())), REFUSED, request),
        "bare-token" => asked(name, bare(), PASSED, request_with_token),
        "ours-token" => asked(name, inside(plenty()), PASSED, request_with_token),
        "bare-many" => asked(name, bare(), PASSED, many_clients()),
        "ours-many" => asked(name, met(inside(plenty())), PASSED, many_clients()),
        "governor-many" => asked(name, met(bare().layer(theirs(true))), PASSED, many_clients()),
        _ => return of_served(name),
    })
}

fn of_served(name: &str) -> Option<Contender<'static>> {
    let inside = |limits| bare().layer(ours(limits));
    // axum serves only its own body type and converts bodies of layers inside a router to it.
    let before = |limits| MapResponse::new(ours(limits).layer(bare()), boxed);
    Some(match name {
        "served-bare" => served(name, bare(), 200),
        "served-ours-pass" => served(name, inside(plenty()), 200),
        "served-ours-pass-before" => served(name, before(plenty()), 200),
        "served-ours-refused" => served(name, inside(scarce()), 429),
        "served-ours-refused-before" => served(name, before(scarce()), 429),
        "served-governor-pass" => served(name, bare().layer(theirs(true)), 200),
        "served-governor-refused" => served(name, bare().layer(theirs(false)), 429),
        _ => return None,
    })
}

fn boxed(response: Response<ResponseBody<Body>>) -> Response<Body> {
    response.map(Body::new)
}

/// axum's bare 200: one route, no body, no headers.
fn bare() -> Router {
    Router::new().route("/hello", get(|| async {}))
}

/// Our layer as in its guide: the default identity, here by address, and both header families.
fn ours(limits: Limits) -> RateLimitLayer {
    RateLimitLayer::new(limits).expect("the limits are valid")
}

fn plenty() -> Limits {
    Limits::new().platform(PartialLimit::per_second(1_000_000).burst(PLENTY))
}

/// One request an hour.
fn scarce() -> Limits {
    let one = PartialLimit::new().requests(1).window(Duration::from_hours(1)).burst(1);
    Limits::new().platform(one)
}

/// `tower_governor` as in its guide, by peer address, with its headers.
fn theirs(is_plenty: bool) -> Theirs {
    let mut config = GovernorConfigBuilder::default().use_headers();
    if is_plenty {
        config.per_nanosecond(1_000).burst_size(PLENTY);
    } else {
        config.per_second(3_600).burst_size(1);
    }
    GovernorLayer::new(config.finish().expect("the quota is above zero"))
}

/// The service after its only request of the hour.
fn used_up<S, B>(service: S) -> S
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + Clone,
{
    ask(&service, request());
    service
}

/// The service after a first request of each client.
fn met<S, B>(service: S) -> S
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + Clone,
{
    for client in 0..MANY_CLIENTS {
        ask(&service, request_from(address(client)));
    }
    service
}

/// Requests of many clients in random order, the same for all contenders.
fn many_clients() -> impl FnMut() -> Request<Body> {
    let mut random = Random::new(3);
    move || {
        let client = random.next_u64() % u64::from(MANY_CLIENTS);
        request_from(address(u32::try_from(client).unwrap_or(0)))
    }
}

/// 10.0.0.0/8 has enough addresses.
fn address(client: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0A00_0000 + client)
}
