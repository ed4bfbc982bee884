//! Client addresses compared with the crate `real-ip`, an independent implementation.
//!
//! The generator compensates for intended differences:
//! - real-ip ignores a header with an invalid hop anywhere; we stop at the invalid hop. So it gets only the hops
//!   right of the last invalid one.
//! - It skips a hop without an address (`for=unknown`) and trusts the hops left of it; for us it is invalid.
//! - It reads only the first line of a header; it gets all lines joined.
//! - It does not parse ports and zones in `X-Forwarded-For`, keeps IPv4-mapped addresses, and rejects empty list
//!   elements; it gets the plain address of each hop.

use crate::request;
use hivemind_core::ClientIp;
use hivemind_tower::{ClientAddress, ForwardingHeader, Identity};
use proptest::prelude::*;
use real_ip::{IpNet, real_ip};
use std::net::IpAddr;

const TRUSTED: [&str; 3] = ["10.0.0.0/8", "192.0.2.128/25", "2001:db8:ff::/48"];

/// A hop in the syntax of each header, and the address that it stands for; `None` if it is invalid.
#[derive(Clone, Debug)]
struct Hop {
    address: Option<IpAddr>,
    xff: String,
    forwarded: String,
}

/// Addresses on both sides of the trusted networks' bounds.
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
    // Trusted addresses are more frequent, so that walks are long enough.
    let trusted = prop::sample::select(vec!["10.0.0.1", "192.0.2.200", "2001:db8:ff::1"]);
    prop_oneof![3 => trusted, 2 => prop::sample::select(edges.to_vec())]
        .prop_map(|text| text.parse().unwrap())
}

fn valid_hops() -> impl Strategy<Value = Hop> {
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
        Hop { address: Some(address), xff, forwarded }
    })
}

fn invalid_hops() -> impl Strategy<Value = Hop> {
    let texts = ["unknown", "_x", "1.2.3", "for", "\"", "10.0.0.1;", "\\\"", "[::1", "10.0.0.1 10.0.0.2"];
    prop::sample::select(texts.to_vec()).prop_map(|text| {
        let forwarded = if text == "unknown" { "for=unknown".into() } else { format!("{text}=") };
        Hop { address: None, xff: text.into(), forwarded }
    })
}

fn hops() -> impl Strategy<Value = Vec<Hop>> {
    prop::collection::vec(prop_oneof![8 => valid_hops(), 1 => invalid_hops()], 0..8)
}

/// The client address according to real-ip, for plain hops in this header.
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
    /// Fails when the walk starts at the left, when the header of an untrusted peer is read, when invalid hops are
    /// skipped, when quotes or escapes are ignored, when mapped addresses are kept, and when only the last line is
    /// read.
    #[test]
    fn client_address_equals_real_ip_crate(
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

        let mut valid: Vec<_> = hops.iter().rev().map_while(|hop| hop.address).collect();
        valid.reverse();
        prop_assert_eq!(ours, oracle(header, &valid, peer).map(ClientIp::from), "{:?}", lines);
    }
}
