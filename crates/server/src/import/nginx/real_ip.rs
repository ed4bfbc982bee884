//! `set_real_ip_from` and its like: whose word on a client's address counts.

use super::report::Report;
use super::tree::Directive;

/// `gateway.client_ip`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClientIp {
    pub(super) trusted_proxies: Vec<String>,
}

impl ClientIp {
    pub(super) const DIRECTIVES: [&'static str; 3] =
        ["set_real_ip_from", "real_ip_header", "real_ip_recursive"];

    /// Adds what a block says. The gateway has one list for all services.
    pub(super) fn add(&mut self, block: &[Directive], report: &mut Report) {
        for directive in block {
            let value = directive.arg(0);
            match directive.name.as_str() {
                "set_real_ip_from" if is_network(value) => {
                    if !self.trusted_proxies.iter().any(|other| other == value) {
                        self.trusted_proxies.push(value.to_owned());
                    }
                }
                "set_real_ip_from" => report.note(directive, "the gateway trusts addresses and networks, not names or sockets"),
                "real_ip_header" if value.eq_ignore_ascii_case("x-forwarded-for") => {}
                "real_ip_header" => report.note(
                    directive,
                    "the gateway reads `x-forwarded-for` or `forwarded`; have the proxy in front write one of these",
                ),
                "real_ip_recursive" if value == "off" => report.note(
                    directive,
                    "the gateway always goes on to the first address that is not a trusted proxy's",
                ),
                _ => {}
            }
        }
    }
}

fn is_network(text: &str) -> bool {
    let (address, length) =
        text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
    let Ok(address) = address.parse::<std::net::IpAddr>() else { return false };
    let longest: u8 = if address.is_ipv4() { 32 } else { 128 };
    length.is_none_or(|length| length.parse().is_ok_and(|length: u8| length <= longest))
}
