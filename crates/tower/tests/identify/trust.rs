//! Client addresses: trusted proxies, hops and forged headers.

use crate::request;
use hivemind_core::Ipv6Prefix;
use hivemind_tower::{ClientAddress, ForwardingHeader, Identity};
use std::net::IpAddr;

const FORWARDED: ForwardingHeader = ForwardingHeader::Forwarded;
const XFF: ForwardingHeader = ForwardingHeader::XForwardedFor;
const PROXY: &str = "10.0.0.1";

fn proxies(header: ForwardingHeader) -> ClientAddress {
    ClientAddress::behind_proxies(["10.0.0.0/8", "2001:db8:ff::/48"], header).unwrap()
}

/// The address of the client behind `peer`, according to these header lines.
fn client(address: &ClientAddress, peer: &str, lines: &[(&str, &str)]) -> String {
    let lines: Vec<_> = lines.iter().map(|(name, value)| (*name, value.as_bytes())).collect();
    let identity = Identity::by_address(address.clone());
    let client = identity.identify(&request(&lines), peer.parse().ok());
    client.name().trim_start_matches("ip:").to_owned()
}

fn by_xff(line: &str) -> String {
    client(&proxies(XFF), PROXY, &[("x-forwarded-for", line)])
}

fn by_forwarded(line: &str) -> String {
    client(&proxies(FORWARDED), PROXY, &[("forwarded", line)])
}

#[test]
fn headers_are_ignored_for_the_address_by_default() {
    let lines = [
        ("x-forwarded-for", "198.51.100.7"),
        ("forwarded", "for=198.51.100.7"),
        ("x-real-ip", "198.51.100.7"),
    ];
    assert_eq!(client(&ClientAddress::default(), "203.0.113.9", &lines), "203.0.113.9");
    assert_eq!(client(&ClientAddress::default(), "::ffff:203.0.113.9", &lines), "203.0.113.9");
    assert_eq!(client(&ClientAddress::default(), "2001:db8:1:2:3:4:5:6", &lines), "2001:db8:1:2::/64");
    assert_eq!(client(&ClientAddress::default(), "a Unix socket", &lines), "unknown");
}

/// Fails when the header of an untrusted peer is read.
#[test]
fn only_the_configured_header_of_a_trusted_peer_is_read() {
    let lines = [("x-forwarded-for", "198.51.100.7")];
    assert_eq!(client(&proxies(XFF), "203.0.113.9", &lines), "203.0.113.9");
    assert_eq!(client(&proxies(XFF), "a Unix socket", &lines), "unknown");
    assert_eq!(client(&proxies(XFF), PROXY, &lines), "198.51.100.7");
    assert_eq!(client(&proxies(XFF), "::ffff:10.0.0.1", &lines), "198.51.100.7");
    assert_eq!(client(&proxies(FORWARDED), PROXY, &lines), PROXY);
    assert_eq!(client(&proxies(XFF), PROXY, &[("forwarded", "for=198.51.100.7")]), PROXY);
}

/// Fails when the walk starts at the left.
#[test]
fn first_untrusted_address_from_the_right_is_the_client() {
    for (line, named) in [
        ("198.51.100.7", "198.51.100.7"),
        ("198.51.100.7, 203.0.113.9", "203.0.113.9"),
        ("198.51.100.7, 203.0.113.9, 10.9.9.9", "203.0.113.9"),
        ("203.0.113.9,::ffff:10.9.9.9", "203.0.113.9"),
        ("203.0.113.9 , 2001:db8:ff::7", "203.0.113.9"),
        ("10.0.0.3, 10.0.0.2", "10.0.0.3"), // All are trusted: the leftmost.
        ("", PROXY),
        (" , ,", PROXY),
        ("203.0.113.9,, 10.0.0.2,", "203.0.113.9"), // Empty elements are none (RFC 9110, 5.6.1).
    ] {
        assert_eq!(by_xff(line), named, "{line}");
    }
    let lines = [
        ("x-forwarded-for", "198.51.100.7"),
        ("x-forwarded-for", "203.0.113.9"),
        ("x-forwarded-for", "10.0.0.2"),
    ];
    assert_eq!(client(&proxies(XFF), PROXY, &lines), "203.0.113.9");
}

#[test]
fn invalid_hop_ends_the_walk_at_last_valid_hop_or_peer() {
    for garbage in [
        "unknown",
        "_hidden",
        "x",
        "1.2.3",
        "1.2.3.4.5",
        "01.2.3.4",
        "256.1.1.1",
        "1.2.3.4:",
        "1.2.3.4:x",
        "1.2.3.4:123456",
        "[::1",
        "[::1]x",
        "[::1]:",
        "::g",
        "[1.2.3.4]",
        "\"1.2.3.4\"",
        "fe80::1%",
        "for=1.2.3.4",
        "1.2.3.4 5",
    ] {
        assert_eq!(by_xff(garbage), PROXY, "{garbage}");
        assert_eq!(by_xff(&format!("198.51.100.7, {garbage}, 10.0.0.2")), "10.0.0.2", "{garbage}");
        // Left of the client's address is client input, which is not read.
        assert_eq!(by_xff(&format!("{garbage}, 203.0.113.9")), "203.0.113.9", "{garbage}");
    }
}

#[test]
fn address_parsing_strips_ports_brackets_and_zones() {
    for (node, named) in [
        ("203.0.113.9:4711", "203.0.113.9"),
        ("2001:db8:1:2:3::4", "2001:db8:1:2::/64"),
        ("[2001:db8:1:2:3::4]", "2001:db8:1:2::/64"),
        ("[2001:db8:1:2:3::4]:443", "2001:db8:1:2::/64"),
        ("[::ffff:203.0.113.9]:443", "203.0.113.9"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("fe80::1%eth0", "fe80::/64"),
        ("[fe80::1%25eth0]:443", "fe80::/64"),
    ] {
        assert_eq!(by_xff(node), named, "{node}");
    }
    let site = proxies(XFF).with_ipv6_prefix(Ipv6Prefix::new(48).unwrap());
    assert_eq!(client(&site, PROXY, &[("x-forwarded-for", "2001:db8:1:2::3")]), "2001:db8:1::/48");
}

/// Includes the examples of RFC 7239.
#[test]
fn forwarded_header_parsing_follows_rfc_7239() {
    for (line, named) in [
        ("for=192.0.2.43", "192.0.2.43"),
        ("For=\"[2001:db8:cafe::17]:4711\"", "2001:db8:cafe::/64"),
        ("for=192.0.2.60;proto=http;by=203.0.113.43", "192.0.2.60"),
        ("for=192.0.2.43, for=198.51.100.17", "198.51.100.17"),
        ("for=_hidden, for=_SEVKISEK", PROXY),
        ("for=\"_gazonk\"", PROXY),
        ("for=unknown", PROXY),
        ("for=\"192.0.2.43:47011\"", "192.0.2.43"),
        ("for=\"192.0.2.43:_port\"", "192.0.2.43"),
        ("for=\"[2001:db8::1]:_p.o-r_t\"", "2001:db8::/64"),
        ("FOR=192.0.2.43;;By=_x;", "192.0.2.43"),
        ("by=\"a,b;c\";for=192.0.2.43", "192.0.2.43"),
        ("for=198.51.100.7, by=\"x, for=203.0.113.1\";for=10.0.0.2", "198.51.100.7"),
        ("for=192.0.2.43;by=\"a\\\"b,c\\\\\"", "192.0.2.43"),
        ("for=\"192.0\\.2.43\"", "192.0.2.43"),
        // Violations of the grammar.
        ("for=192.0.2.43:80", PROXY),
        ("for=[2001:db8::1]", PROXY),
        ("for=\"2001:db8::1\"", PROXY),
        ("for = 192.0.2.43", PROXY),
        ("for=192.0.2.43;for=192.0.2.44", PROXY),
        ("for=192.0.2.43;nonsense", PROXY),
        ("for=\"192.0.2.43\"x", PROXY),
        ("for=\"192.0.2.43", PROXY),
        ("proto=https", PROXY),
        ("192.0.2.43", PROXY),
        ("for=", PROXY),
    ] {
        assert_eq!(by_forwarded(line), named, "{line}");
    }
}

/// Fails when commas are searched from the left.
#[test]
fn open_quote_hides_no_hop_that_a_proxy_appends() {
    for forged in
        ["for=\"", "for=\"198.51.100.7", "for=198.51.100.7;by=\"", "\"", "for=\"\\", "\\\"", "\"\\\"\\"]
    {
        for appended in ["for=203.0.113.9", "for=\"203.0.113.9:1\";by=\"[::1]\""] {
            assert_eq!(by_forwarded(&format!("{forged}, {appended}")), "203.0.113.9", "{forged}");
            let lines = [("forwarded", forged), ("forwarded", appended)];
            assert_eq!(client(&proxies(FORWARDED), PROXY, &lines), "203.0.113.9", "{forged}");
        }
    }
}

#[test]
fn trusted_hops_are_counted_from_the_right() {
    let line = [("x-forwarded-for", "198.51.100.7, 203.0.113.9, 192.0.2.1")];
    for (hops, named) in [(1, "192.0.2.1"), (2, "203.0.113.9"), (3, "198.51.100.7"), (4, "198.51.100.7")] {
        let address = ClientAddress::behind_hops(hops, XFF).unwrap();
        assert_eq!(client(&address, "192.0.2.2", &line), named, "{hops}");
        assert_eq!(client(&address, "a Unix socket", &line), named, "{hops}");
    }
    let address = ClientAddress::behind_hops(2, XFF).unwrap();
    assert_eq!(client(&address, "192.0.2.2", &[("x-forwarded-for", "x, 192.0.2.1")]), "192.0.2.1");
    assert_eq!(client(&address, "192.0.2.2", &[]), "192.0.2.2");
    assert_eq!(client(&address, "a Unix socket", &[("x-forwarded-for", "x")]), "unknown");
}

/// Fails without either of the two bounds.
#[test]
fn forwarded_header_reading_is_bounded() {
    let many = format!("203.0.113.9{}", ", 10.0.0.2".repeat(32));
    assert_eq!(by_xff(&many), "10.0.0.2", "hops");
    assert_eq!(by_xff(&many.replacen(", 10.0.0.2", "", 1)), "203.0.113.9");
    let long = format!("203.0.113.9, 10.0.0.3{}, 10.0.0.2", " ".repeat(4_200));
    assert_eq!(by_xff(&long), "10.0.0.2", "bytes");
    // An address that the bound cuts is never used.
    for spaces in 4_050..4_096 {
        let line = format!("10.0.0.7, 203.0.113.9{}, 10.0.0.2", " ".repeat(spaces));
        assert!(["203.0.113.9", "10.0.0.2"].contains(&by_xff(&line).as_str()), "{spaces}");
    }
    let lines = [("x-forwarded-for", "203.0.113.9"), ("x-forwarded-for", &long[..])];
    assert_eq!(client(&proxies(XFF), PROXY, &lines), "10.0.0.2", "lines");
}

#[test]
fn leftmost_address_is_used_only_if_configured() {
    let address = ClientAddress::legacy_leftmost(XFF);
    assert_eq!(client(&address, "203.0.113.9", &[("x-forwarded-for", "198.51.100.7:1, x")]), "198.51.100.7");
    assert_eq!(client(&address, "203.0.113.9", &[("x-forwarded-for", "x, 198.51.100.7")]), "203.0.113.9");
    assert_eq!(client(&address, "203.0.113.9", &[]), "203.0.113.9");
    let address = ClientAddress::legacy_leftmost(FORWARDED);
    let line = "by=\"a,b\";for=198.51.100.7, for=192.0.2.1";
    assert_eq!(client(&address, "203.0.113.9", &[("forwarded", line)]), "198.51.100.7");
}

#[test]
fn trusted_networks_parse_or_errors_name_the_remedy() {
    let trusted = |network: &str| ClientAddress::behind_proxies([network], XFF);
    for (network, peer, is_trusted) in [
        ("10.0.0.1", "10.0.0.1", true),
        ("10.0.0.1", "10.0.0.2", false),
        ("10.1.2.3/8", "10.9.9.9", true),
        ("::ffff:10.0.0.0/104", "10.9.9.9", true),
        ("2001:db8::/32", "2001:db8:9::1", true),
        (" 0.0.0.0/0 ", "198.51.100.1", true),
        ("0.0.0.0/0", "2001:db8::1", false),
    ] {
        let peer: IpAddr = peer.parse().unwrap();
        let named =
            client(&trusted(network).unwrap(), &peer.to_string(), &[("x-forwarded-for", "203.0.113.9")]);
        assert_eq!(named == "203.0.113.9", is_trusted, "{network} {peer}");
    }
    for text in ["", "10.0.0.0/33", "ten", "10.0.0.0/8,", &"9".repeat(1_000)] {
        let error = trusted(text).unwrap_err().to_string();
        assert!(error.contains("write it like 10.0.0.0/8") && error.len() < 200, "{error}");
    }
    assert!(
        ClientAddress::behind_proxies([""; 0], XFF).unwrap_err().to_string().contains("name their networks")
    );
    for hops in [0, 33] {
        assert!(ClientAddress::behind_hops(hops, XFF).unwrap_err().to_string().contains("count the proxies"));
    }
}

#[test]
fn legacy_leftmost_warns_once_at_construction() {
    let folder = tempfile::tempdir().unwrap();
    let events = folder.path().join("events");
    let sink = std::sync::Arc::new(std::fs::File::create(&events).unwrap());
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(sink).finish();
    tracing::subscriber::with_default(subscriber, || {
        let address = ClientAddress::legacy_leftmost(XFF);
        for _ in 0..3 {
            client(&address, PROXY, &[("x-forwarded-for", "203.0.113.9")]);
        }
    });
    let log = std::fs::read_to_string(&events).unwrap();
    assert_eq!(log.lines().count(), 1, "{log}");
    assert!(log.contains("WARN") && log.contains("trusted_proxies"), "{log}");
}
