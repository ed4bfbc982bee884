//! `gateway.client_ip`, `identity` and `session_cookie`: how clients are told apart.

use super::kinds::{COOKIE, FORWARDING, STEP};
use super::{Clients, Forwarding, IdentityStep};
use hivemind_config::kind::{FLAG, IPV6_PREFIX, NETWORK, NUMBER};
use hivemind_config::reading::Section;

/// What is ever walked of a chain of proxies.
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

/// There is one way to know whom to trust, and it has to be a sound one.
fn check(address: &mut Section<'_, '_>, hops: Option<u32>, leftmost: bool) {
    if hops.is_some_and(|hops| !(1..=MOST_HOPS).contains(&hops)) {
        let cause = format!("`gateway.client_ip.trusted_hops` is a number of proxies, 1 to {MOST_HOPS}");
        address.refuse("trusted_hops", cause, "count those between the clients and here, or leave it out");
    }
    let ways = [
        ("trusted_proxies", address.has("trusted_proxies")),
        ("trusted_hops", hops.is_some()),
        ("legacy_leftmost", leftmost),
    ];
    let mut chosen = ways.into_iter().filter_map(|(key, is_chosen)| is_chosen.then_some(key));
    let first = chosen.next();
    if let (Some(first), Some(second)) = (first, chosen.next()) {
        let cause = format!("`{first}` and `{second}` are two ways to find the client, and both are here");
        address.refuse(
            second,
            cause,
            "keep `trusted_proxies`, which names the proxies, and leave the other out",
        );
    }
    if first.is_none() && address.has("header") {
        let cause = "`gateway.client_ip.header` is not read: nobody is trusted to write it".to_owned();
        address.warn("header", cause, "name your proxies in `trusted_proxies` beside it, or leave it out");
    }
    if leftmost {
        let cause =
            "`legacy_leftmost` lets every client choose the address it is limited by, and whom fail2ban bans";
        address.warn("legacy_leftmost", cause.to_owned(), "name your proxies in `trusted_proxies` instead");
    }
}

fn check_steps(section: &mut Section<'_, '_>, steps: &[IdentityStep]) {
    let twice =
        steps.iter().enumerate().any(|(index, step)| steps.iter().take(index).any(|other| other == step));
    let early = steps.iter().rev().skip(1).any(|step| *step == IdentityStep::Ip);
    if twice {
        section.refuse("identity", "`gateway.identity` has a step twice".into(), "leave one of the two out");
    } else if early {
        let cause = "every client has an address, so nothing behind `ip` in `gateway.identity` is ever asked";
        section.refuse("identity", cause.to_owned(), "put `ip` last");
    }
}
