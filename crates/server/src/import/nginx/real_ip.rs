//! `set_real_ip_from` and related directives: trusted proxies.

use super::report::ImportReport;
use super::tree::Directive;

/// `gateway.client_ip`.
#[derive(Default)]
pub(super) struct RealIp {
    pub(super) trusted_proxies: Vec<String>,
    /// The first directive of the list, and whether its proxies write the header that the gateway reads.
    trusts: Option<Directive>,
    reads_forwarded_for: bool,
}

impl RealIp {
    pub(super) const DIRECTIVES: [&'static str; 3] =
        ["set_real_ip_from", "real_ip_header", "real_ip_recursive"];

    /// Adds the directives of a block; `within` names the block if it is not `http`.
    pub(super) fn add(&mut self, block: &[Directive], within: Option<&str>, report: &mut ImportReport) {
        for directive in block {
            let value = directive.arg(0);
            if directive.name == "set_real_ip_from" {
                self.trusts.get_or_insert_with(|| directive.clone());
                if let Some(within) = within {
                    let text =
                        format!("in the gateway it applies to all services, and not only to this {within}");
                    report.lose(directive, text);
                }
            }
            match directive.name.as_str() {
                "set_real_ip_from" if self.trusted_proxies.iter().any(|other| other == value) => {}
                "set_real_ip_from" if is_network(value) => self.trusted_proxies.push(value.to_owned()),
                "set_real_ip_from" => report.note(directive, "the gateway trusts addresses and networks, but not names or sockets"),
                "real_ip_header" if value.eq_ignore_ascii_case("x-forwarded-for") => {
                    self.reads_forwarded_for = true;
                }
                "real_ip_header" => report.note(
                    directive,
                    "the gateway reads `x-forwarded-for` or `forwarded`; let the proxy in front write one of them",
                ),
                "real_ip_recursive" if value == "off" => report.note(
                    directive,
                    "the gateway always continues to the first address that is not a trusted proxy",
                ),
                _ => {}
            }
        }
    }

    /// The list, if its proxies write `X-Forwarded-For`: a proxy that writes another header passes this one on
    /// unchecked, and clients could choose their identity.
    pub(super) fn finish(&mut self, report: &mut ImportReport) {
        if let Some(directive) = self.trusts.take().filter(|_| !self.reads_forwarded_for) {
            self.trusted_proxies.clear();
            let text = "without `real_ip_header X-Forwarded-For` nginx reads another header, so the list was omitted and all \
                         clients of that proxy count as one; let it write X-Forwarded-For, and add it to `client_ip.trusted_proxies`";
            report.note(&directive, text);
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
