//! Host and origin of a request: which name it was sent to, and from which site's page.

use axum::extract::Request;
use axum::http::{HeaderValue, header};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Whether a browser sent the request for a page of another site.
pub(super) fn is_of_another_page(request: &Request) -> bool {
    // An embedding page sends no origin, but the browser marks the request as cross-site.
    let site = request.headers().get("sec-fetch-site").map(HeaderValue::as_bytes);
    if site.is_some_and(|site| ![&b"same-origin"[..], b"none"].contains(&site)) {
        return true;
    }
    let Some(origin) = request.headers().get(header::ORIGIN) else { return false };
    let host =
        [&b"http://"[..], b"https://"].iter().find_map(|scheme| origin.as_bytes().strip_prefix(*scheme));
    host.is_none() || host != asked_host(request)
}

/// The host and port that the request was sent to.
pub(super) fn asked_host(request: &Request) -> Option<&[u8]> {
    let host = request.headers().get(header::HOST).map(HeaderValue::as_bytes);
    host.or_else(|| request.uri().authority().map(|authority| authority.as_str().as_bytes()))
}

/// Whether the host cannot be another's name: an IP address, or `localhost`.
pub(super) fn is_own_name(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let is_port = |port: &str| port.bytes().all(|digit| digit.is_ascii_digit());
    if let Some((address, rest)) = host.strip_prefix('[').and_then(|host| host.split_once(']')) {
        let has_end = rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port);
        return has_end && address.parse::<Ipv6Addr>().is_ok();
    }
    let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
    is_port(port) && (name.eq_ignore_ascii_case("localhost") || name.parse::<Ipv4Addr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::is_own_name;

    // Fails when every name that begins with `localhost` is accepted.
    #[test]
    fn own_names_are_addresses_and_localhost() {
        for own in ["localhost", "LOCALHOST:1", "127.0.0.1", "192.0.2.7:8080", "[::1]", "[2001:db8::1]:80"] {
            assert!(is_own_name(own.as_bytes()), "{own}");
        }
        for others in [
            "",
            "evil.example",
            "evil.example:8080",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "[evil]",
            "[::1",
            "[::1]x",
            "[::1]:x",
            "127.0.0.1:x",
            "::1",
            "1",
        ] {
            assert!(!is_own_name(others.as_bytes()), "{others}");
        }
    }
}
