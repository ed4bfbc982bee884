//! The walk beside the crate `real-ip`, which reads the same headers in its own way.
//!
//! Where the two differ on purpose, the generator or the question says so:
//! - real-ip ignores a header with garbage anywhere in it; we stop where the garbage is.
//!   So it is asked about the hops right of the last garbage.
//! - It skips a hop without an address (`for=unknown`), and believes what is left of it;
//!   for us that is garbage.
//! - It reads the first line of a header only; it gets all lines joined.
//! - It reads no port and no zone in `X-Forwarded-For`, keeps mapped addresses as they
//!   are, and takes an empty list element for garbage: it gets the hop's plain address.

use crate::request;
use hivemind_core::ClientIp;
use hivemind_tower::{ClientAddress, ForwardingHeader, Identity};
use proptest::prelude::*;
use real_ip::{IpNet, real_ip};
use std::net::IpAddr;

const TRUSTED: [&str; 3] = ["10.0.0.0/8", "192.0.2.128/25", "2001:db8:ff::/48"];

/// A hop as it is written in each header, and as it is meant; none for garbage.
#[derive(Clone, Debug)]
struct Hop {
    meant: Option<IpAddr>,
    xff: String,
    forwarded: String,
}

/// Addresses on both sides of the trusted networks' edges.
fn addresses() -> impl Strategy<Value = IpAddr> {
    let edges = [
        "10.0.0.0",
        "10.255.255.255",
        "9.255.255.255",
        "11.0.0.0",
        "192.0.2.127",
        "192.0.2.128",
        "192.0.2.255",
        "192.0.3.0",
        "2001:db8:ff::",
        "2001:db8:ff:ffff:ffff:ffff:ffff:ffff",
        "2001:db8:fe::1",
        "2001:db8:100::",
    ];
    // Trusted ones thrice, or no walk would get far.
    let trusted = prop::sample::select(vec!["10.0.0.1", "192.0.2.200", "2001:db8:ff::1"]);
    prop_oneof![3 => trusted, 2 => prop::sample::select(edges.to_vec())]
        .prop_map(|text| text.parse().unwrap())
}

fn good_hops() -> impl Strategy<Value = Hop> {
    (addresses(), 0..5_u8).prop_map(|(address, form)| {
        let is_v6 = address.is_ipv6();
        let bracketed = if is_v6 { format!("[{address}]") } else { address.to_string() };
        let (xff, node) = match form {
            0 => (address.to_string(), bracketed),
            1 => (bracketed.clone(), bracketed),
            2 => (format!("{bracketed}:4711"), format!("{bracketed}:4711")),
            3 if is_v6 => (format!("{address}%eth0"), bracketed),
            3 => (format!("::ffff:{address}"), bracketed),
            _ => (format!(" {address} ,"), bracketed),
        };
        let quoted = is_v6 || node.contains(':') || form == 1;
        let node = if quoted { format!("\"{node}\"") } else { node };
        let forwarded = match form {
            2 => format!("by=\"_a,b;c\";FOR={node};proto=https"),
            3 => format!("for={node};by=\"\\\"\\\\\""),
            _ => format!("for={node}"),
        };
        Hop { meant: Some(address), xff, forwarded }
    })
}

fn garbage() -> impl Strategy<Value = Hop> {
    let texts = ["unknown", "_x", "1.2.3", "for", "\"", "10.0.0.1;", "\\\"", "[::1", "10.0.0.1 10.0.0.2"];
    prop::sample::select(texts.to_vec()).prop_map(|text| {
        let forwarded = if text == "unknown" { "for=unknown".into() } else { format!("{text}=") };
        Hop { meant: None, xff: text.into(), forwarded }
    })
}

fn hops() -> impl Strategy<Value = Vec<Hop>> {
    prop::collection::vec(prop_oneof![8 => good_hops(), 1 => garbage()], 0..8)
}

/// What real-ip says about plain hops, in this header.
fn oracle(header: ForwardingHeader, hops: &[IpAddr], peer: IpAddr) -> Option<IpAddr> {
    let (name, plain): (_, Vec<_>) = match header {
        ForwardingHeader::Forwarded => (
            "forwarded",
            hops.iter()
                .map(|hop| match hop {
                    IpAddr::V4(hop) => format!("for={hop}"),
                    IpAddr::V6(hop) => format!("for=\"[{hop}]\""),
                })
                .collect(),
        ),
        _ => ("x-forwarded-for", hops.iter().map(ToString::to_string).collect()),
    };
    let line = plain.join(", ");
    let lines: &[(&str, &[u8])] = if hops.is_empty() { &[] } else { &[(name, line.as_bytes())] };
    let trusted = TRUSTED.map(|network| network.parse::<IpNet>().unwrap());
    real_ip(&request(lines).headers, peer, &trusted)
}

proptest! {
    /// Fails with the walk begun at the left, with the header read whoever the
    /// peer is, with garbage skipped, with quotes or escapes not minded, with mapped
    /// addresses kept, and with only the last line read.
    #[test]
    fn the_walk_ends_where_real_ip_ends(
        hops in hops(),
        line_breaks in any::<u8>(),
        peer in addresses(),
        is_forwarded in any::<bool>(),
    ) {
        let header = if is_forwarded { ForwardingHeader::Forwarded } else { ForwardingHeader::XForwardedFor };
        let name = if is_forwarded { "forwarded" } else { "x-forwarded-for" };
        let mut lines = vec![String::new()];
        for (index, hop) in hops.iter().enumerate() {
            if line_breaks & (1 << index) != 0 {
                lines.push(String::new());
            }
            let line = lines.last_mut().unwrap();
            if !line.is_empty() {
                line.push_str(", ");
            }
            line.push_str(if is_forwarded { &hop.forwarded } else { &hop.xff });
        }
        let sent: Vec<_> = lines.iter().map(|line| (name, line.as_bytes())).collect();
        let address = ClientAddress::behind_proxies(TRUSTED, header).unwrap();
        let ours = Identity::by_address(address).identify(&request(&sent), Some(peer)).address();

        let mut good: Vec<_> = hops.iter().rev().map_while(|hop| hop.meant).collect();
        good.reverse();
        prop_assert_eq!(ours, oracle(header, &good, peer).map(ClientIp::from), "{:?}", lines);
    }
}
