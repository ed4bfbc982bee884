//! Routing and the choice of upstreams, without connections.

use super::*;
use crate::settings::{IpGuard, Platform, UpstreamUrl as UpstreamSettings, WebSocketSettings};
use hivemind_tower::{Limits, PartialLimit};
use proptest::prelude::*;
use std::time::Duration;

fn service(id: &str, hosts: &[&str], path_prefix: &str, ports: &[u16]) -> ServiceSettings {
    let second = Duration::from_secs(1);
    let upstream = |port: &u16| UpstreamSettings { is_tls: false, host: "127.0.0.1".into(), port: *port };
    ServiceSettings {
        id: id.into(),
        hosts: hosts.iter().map(|&host| host.into()).collect(),
        path_prefix: path_prefix.into(),
        upstreams: ports.iter().map(upstream).collect(),
        http2: false,
        upstream_ca: None,
        host_header: HostHeader::Keep,
        strip_prefix: false,
        forwarded: ForwardedHeaders::XForwarded,
        max_body: None,
        timeouts: Timeouts { connect: second, response: second, idle: second, total: None },
        limit: PartialLimit::new(),
        endpoints: Vec::new(),
        websocket: WebSocketSettings::default(),
    }
}

fn routing(services: Vec<ServiceSettings>) -> Routing {
    let platform = Platform {
        enabled: true,
        limit: PartialLimit::new(),
        max_requests: None,
        max_burst: None,
        is_global: false,
        ip_guard: IpGuard::Usual,
        websocket: WebSocketSettings::default(),
    };
    Routing { platform, services }
}

fn table(services: Vec<ServiceSettings>, before: Option<&RoutingTable>) -> RoutingTable {
    let limiter = RateLimiter::new(Limits::new()).unwrap();
    RoutingTable::new(&routing(services), &limiter, before, &DialContext::default(), 1).unwrap()
}

/// Fails when the shortest prefix wins, a prefix may end within a segment, hosts are compared with their case, or a
/// path outside of every prefix is accepted.
#[test]
fn most_specific_host_wins_then_longest_prefix() {
    let table = table(
        vec![
            service("all", &[], "/", &[1]),
            service("users", &[], "/users", &[1]),
            service("exports", &[], "/users/exports", &[1]),
            service("one", &["one.example"], "/", &[1]),
            service("below", &["*.example"], "/api", &[1]),
            service("deep", &["*.deep.example"], "/", &[1]),
        ],
        None,
    );
    for (host, path, expected) in [
        ("x", "/", Ok("all")),
        ("x", "/usersx", Ok("all")),
        ("x", "/users", Ok("users")),
        ("x", "/users/7", Ok("users")),
        ("x", "/users/", Ok("users")),
        ("x", "/users/exports/7", Ok("exports")),
        ("x", "*", Ok("all")),
        ("", "/", Ok("all")),
        ("one.example", "/users", Ok("one")),
        ("ONE.Example", "/users", Ok("one")),
        ("two.example", "/api/x", Ok("below")),
        ("two.example", "/users", Ok("users")),
        ("a.deep.example", "/api", Ok("deep")),
        ("example", "/api", Ok("all")),
        ("x", "//users", Err(Failure::BadTarget)),
        ("x", "/a/../users", Err(Failure::BadTarget)),
        ("x", "/a/%2e%2E/users", Err(Failure::BadTarget)),
        ("x", "/a%2f..%2fusers", Err(Failure::BadTarget)),
        ("x", "/users/../users/7", Ok("users")),
        ("x", "/a//b/./c", Ok("all")),
    ] {
        let found = table.find(host, path).map(|service| service.gate.service());
        assert_eq!(found, expected, "{host}{path}");
    }
}

#[test]
fn path_cannot_leave_its_prefix() {
    let table = table(vec![service("users", &[], "/users", &[1])], None);
    for (path, is_found) in [("/users/7", true), ("/users/../admin", false), ("/users/%2e%2e/admin", false)] {
        assert_eq!(table.find("x", path).is_ok(), is_found, "{path}");
    }
    assert_eq!(table.find("x", "/admin").err(), Some(Failure::NoService));
}

#[test]
fn upstream_keeps_its_connections_on_reload() {
    let before = table(vec![service("a", &[], "/", &[1, 2])], None);
    let after = table(vec![service("b", &[], "/b", &[2, 3])], Some(&before));
    let known = |port: u16| before.upstreams.iter().find(|of| of.address.upstream.port == port).unwrap();
    let again = after.upstreams.iter().filter(|of| Arc::ptr_eq(of, known(2))).count();
    assert_eq!((again, after.upstreams.len()), (1, 2));
}

/// Fails when the first upstream is always chosen.
#[test]
fn less_loaded_of_two_random_upstreams_is_chosen() {
    let table = table(vec![service("a", &[], "/", &[1, 2, 3])], None);
    let service = table.find("x", "/").unwrap();
    let random = RandomChoice::new();
    let port = |of: &Arc<Upstream>| of.address.upstream.port;
    // Two requests are in progress at the first: it loses against either.
    let busy = service.upstreams.first().unwrap();
    let _under_way = [busy.slot(0), busy.slot(0)];
    let mut chosen = [0; 4];
    for _ in 0..300 {
        chosen[usize::from(port(service.choose(&random, &[]).unwrap()))] += 1;
    }
    assert!(chosen[1] == 0 && chosen[2] > 50 && chosen[3] > 50, "{chosen:?}");
    let mut tried = Vec::new();
    while let Some(upstream) = service.choose(&random, &tried) {
        tried.push(Arc::clone(upstream));
    }
    let mut ports: Vec<u16> = tried.iter().map(port).collect();
    ports.sort_unstable();
    assert_eq!(ports, [1, 2, 3]);
}

#[test]
fn unreachable_upstream_is_skipped_while_others_exist() {
    let table = table(vec![service("a", &[], "/", &[1, 2])], None);
    let service = table.find("x", "/").unwrap();
    let random = RandomChoice::new();
    let [first, second] = &*service.upstreams else { panic!("two upstreams") };
    first.record_unreachable(&crate::dial::DialFailure::TooSlow);
    for _ in 0..20 {
        assert!(Arc::ptr_eq(service.choose(&random, &[]).unwrap(), second));
    }
    second.record_unreachable(&crate::dial::DialFailure::TooSlow);
    assert!(service.choose(&random, &[]).is_some());
}

proptest! {
    /// Any spelling of a path below a service finds this service or none. Fails when routes are matched without
    /// normalizing the path.
    #[test]
    fn path_spelling_does_not_change_the_service(
        spelling in prop::collection::vec(
            prop::sample::select(vec!["/", "//", "/./", "/x/../", "%2f", "/%2e/", "/x/%2E%2e/", "/;a/"]), 1..4)
    ) {
        let table = table(vec![service("all", &[], "/", &[1]), service("users", &[], "/users", &[1])], None);
        let path = format!("{}users/7", spelling.concat());
        prop_assume!(path.starts_with('/'));
        let found = table.find("x", &path).map(|service| service.gate.service());
        let read = normalize(&path).unwrap_or_else(|| path.clone());
        if read == "/users/7" {
            prop_assert!(matches!(found, Ok("users") | Err(Failure::BadTarget)), "{} {:?}", path, found);
        }
    }
}
