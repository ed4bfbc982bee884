//! Authority of a request or a setting: a host with an optional port.
//!
//! One parser serves all components. Two parsers that disagree on the host would be a way around access
//! rules.

use std::net::Ipv6Addr;

/// Longest host name (RFC 1035).
const MOST_NAME: usize = 253;
/// Longest label of a host name.
const MOST_LABEL: usize = 63;

/// The host of `host`, `host:port` or `[address]:port`; `None` if `authority` has another form.
pub fn host(authority: &str) -> Option<&str> {
    let end = match authority.strip_prefix('[') {
        Some(rest) => 1 + rest.find(']')? + 1,
        None => authority.bytes().position(|byte| byte == b':').unwrap_or(authority.len()),
    };
    let (host, port) = authority.split_at_checked(end)?;
    // The port may be empty after its colon (RFC 3986, 3.2.3).
    let is_number = |port: &str| port.bytes().all(|digit| digit.is_ascii_digit());
    let is_port = |port: &str| is_number(port) && (port.is_empty() || port.parse::<u16>().is_ok());
    if !(port.is_empty() || port.strip_prefix(':').is_some_and(is_port)) {
        return None;
    }
    let is_address = |text: &str| text.parse::<Ipv6Addr>().is_ok();
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(address) => is_address(address),
        None => is_name(host),
    };
    is_host.then_some(host)
}

/// Whether `host` is a name, with an optional trailing dot, or an IPv4 address.
fn is_name(host: &str) -> bool {
    let name = host.strip_suffix('.').unwrap_or(host);
    let is_letter = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let is_label = |label: &[u8]| (1..=MOST_LABEL).contains(&label.len()) && label.iter().all(is_letter);
    // On bytes: this runs for every request, and a search for a character costs more.
    let mut labels = name.as_bytes().split(|byte| *byte == b'.');
    name.len() <= MOST_NAME && !name.starts_with('-') && labels.all(is_label)
}

#[cfg(test)]
mod tests {
    use super::host;
    use http::uri::{Authority, PathAndQuery};

    #[test]
    fn host_is_valid_for_every_reader_or_for_none() {
        for (authority, of) in [
            ("a", "a"),
            ("a.example:8080", "a.example"),
            ("a.example.", "a.example."),
            ("a.example:", "a.example"),
            ("under_score.example", "under_score.example"),
            ("192.0.2.7:1", "192.0.2.7"),
            ("[::1]", "[::1]"),
            ("[2001:db8::1]:65535", "[2001:db8::1]"),
        ] {
            assert_eq!(host(authority), Some(of), "{authority}");
            let whole = http::Uri::builder().scheme("http").authority(authority);
            let whole = whole.path_and_query(PathAndQuery::from_static("/x")).build().unwrap();
            assert_eq!(whole.authority().map(Authority::host), Some(of), "{authority}");
        }
        let long = "a".repeat(64);
        for wrong in [
            "", ":80", "a:1:2", "[::1", "::1", "a:x", "a:65536", "a:+1", "[a]", "[::1]x", "a b", "a/b",
            "a,b", "me@a", "a\"b", "a%20b", "a~b", ".", "a..b", ".a", "-a", "a\u{e9}", &long,
        ] {
            assert_eq!(host(wrong), None, "{wrong}");
        }
    }
}
