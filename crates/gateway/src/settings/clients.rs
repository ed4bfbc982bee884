//! `gateway.client_ip`, `identity` and `session_cookie`: client identification.

use super::kinds::{COOKIE, FORWARDING, STEP};
use super::{Clients, Forwarding, IdentityStep};
use hivemind_config::reader::Section;
use hivemind_config::value_kind::{FLAG, IPV6_PREFIX, NETWORK, NUMBER};

/// Maximum number of proxies that are followed in a forwarding chain.
const MOST_HOPS: u32 = 32;
const SESSION_COOKIE: &str = "hivemind_session";
const USUAL: [IdentityStep; 4] =
    [IdentityStep::Session, IdentityStep::Bearer, IdentityStep::ApiKey, IdentityStep::Ip];

pub(super) fn read(section: &mut Section<'_, '_>) -> Clients {
    let mut address = section.section("client_ip");
    let trusted_proxies = address.list("trusted_proxies", &NETWORK);
    let trusted_hops = address.read("trusted_hops", &NUMBER);
    let legacy_leftmost = address.read("legacy_leftmost", &FLAG).unwrap_or(false);
    let header = address.read("header", &FORWARDING);
    let ipv6_prefix = address.read("ipv6_prefix", &IPV6_PREFIX).unwrap_or(64);
    check(&mut address, trusted_hops, legacy_leftmost);
    let given = section.list("identity", &STEP);
    let identity = if given.is_empty() { USUAL.to_vec() } else { given };
    check_steps(section, &identity);
    Clients {
        trusted_proxies,
        trusted_hops,
        legacy_leftmost,
        header: header.unwrap_or(Forwarding::XForwardedFor),
        ipv6_prefix,
        identity,
        session_cookie: section.read("session_cookie", &COOKIE).unwrap_or_else(|| SESSION_COOKIE.to_owned()),
    }
}

/// Checks that exactly one way to trust proxies is configured, and that it is valid.
fn check(address: &mut Section<'_, '_>, hops: Option<u32>, leftmost: bool) {
    if hops.is_some_and(|hops| !(1..=MOST_HOPS).contains(&hops)) {
        let cause = format!("`gateway.client_ip.trusted_hops` is a number of proxies from 1 to {MOST_HOPS}");
        address.refuse(
            "trusted_hops",
            cause,
            "count the proxies between the clients and this gateway, or leave it out",
        );
    }
    let ways = [
        ("trusted_proxies", address.has("trusted_proxies")),
        ("trusted_hops", hops.is_some()),
        ("legacy_leftmost", leftmost),
    ];
    let mut chosen = ways.into_iter().filter_map(|(key, is_chosen)| is_chosen.then_some(key));
    let first = chosen.next();
    if let (Some(first), Some(second)) = (first, chosen.next()) {
        let cause = format!(
            "`{first}` and `{second}` cannot be combined: each is a way to find the client's address"
        );
        address.refuse(
            second,
            cause,
            "keep `trusted_proxies`, which names the proxies, and remove the other",
        );
    }
    if first.is_none() && address.has("header") {
        let cause = "`gateway.client_ip.header` has no effect: no proxy is trusted to set it".to_owned();
        address.warn("header", cause, "list your proxies in `trusted_proxies`, or leave it out");
    }
    if leftmost {
        let cause =
            "`legacy_leftmost` lets clients choose the address that is limited, and that fail2ban bans";
        address.warn("legacy_leftmost", cause.to_owned(), "list your proxies in `trusted_proxies` instead");
    }
}

fn check_steps(section: &mut Section<'_, '_>, steps: &[IdentityStep]) {
    let twice =
        steps.iter().enumerate().any(|(index, step)| steps.iter().take(index).any(|other| other == step));
    let early = steps.iter().rev().skip(1).any(|step| *step == IdentityStep::Ip);
    if twice {
        section.refuse("identity", "`gateway.identity` has a step twice".into(), "remove one of the two");
    } else if early {
        let cause =
            "every client has an address, so steps after `ip` in `gateway.identity` are never reached";
        section.refuse("identity", cause.to_owned(), "put `ip` last");
    }
}
