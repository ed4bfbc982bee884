//! Forwarding headers (`Forwarded`, `X-Forwarded-*`): the upstream receives only our values, or a trusted proxy's
//! with ours appended, and never a client's. A trusted proxy is trusted for the one kind of header that it is known
//! to write; it may pass on the others unchecked.

use crate::settings::ForwardedHeaders;
use hivemind_tower::ForwardingHeader;
use http::header::{FORWARDED, HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;
use std::net::IpAddr;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");
const FAMILY: &str = "x-forwarded-";

/// The peer of a connection in forwarding headers; created once per connection.
pub(super) struct PeerOrigin {
    pub(super) address: IpAddr,
    text: HeaderValue,
    /// Whether its forwarding headers are trusted.
    pub(super) is_trusted: bool,
    pub(super) is_tls: bool,
    /// Whether its override headers pass.
    keeps_overrides: bool,
}

impl PeerOrigin {
    pub(super) fn new(address: IpAddr, is_trusted: bool, is_tls: bool) -> Self {
        let address = address.to_canonical();
        // An IP address is always a valid header value.
        let text = HeaderValue::from_str(&address.to_string());
        let text = text.unwrap_or_else(|_| HeaderValue::from_static("unknown"));
        Self { address, text, is_trusted, is_tls, keeps_overrides: is_trusted }
    }

    /// With override headers kept even if the peer is not trusted, if `keeps`.
    pub(super) const fn keeping_overrides(mut self, keeps: bool) -> Self {
        self.keeps_overrides |= keeps;
        self
    }

    const fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }

    /// Writes the headers that this service wants, and removes untrusted ones: all, or those of another kind than the
    /// `trusted_header` of a trusted peer.
    pub(super) fn write_headers(
        &self,
        headers: &mut HeaderMap,
        host: Option<&HeaderValue>,
        written: ForwardedHeaders,
        trusted_header: Option<ForwardingHeader>,
    ) {
        remove(headers, trusted_header.filter(|_| self.is_trusted), self.keeps_overrides);
        if matches!(written, ForwardedHeaders::XForwarded | ForwardedHeaders::Both) {
            self.write_x_forwarded(headers, host);
        }
        if matches!(written, ForwardedHeaders::Forwarded | ForwardedHeaders::Both) {
            let element = self.element(host);
            append(headers, FORWARDED, element);
        }
    }

    fn write_x_forwarded(&self, headers: &mut HeaderMap, host: Option<&HeaderValue>) {
        headers.reserve(3); // Grow once instead of three times.
        append(headers, X_FORWARDED_FOR, self.text.clone());
        // The first proxy saw the client's original request.
        if !self.is_trusted || !headers.contains_key(X_FORWARDED_PROTO) {
            headers.insert(X_FORWARDED_PROTO, HeaderValue::from_static(self.scheme()));
        }
        if let Some(host) = host
            && (!self.is_trusted || !headers.contains_key(X_FORWARDED_HOST))
        {
            headers.insert(X_FORWARDED_HOST, host.clone());
        }
    }

    /// `for=192.0.2.7;host="a.example:81";proto=https` (RFC 7239).
    fn element(&self, host: Option<&HeaderValue>) -> HeaderValue {
        let mut text = match self.address {
            IpAddr::V4(address) => format!("for={address}"),
            IpAddr::V6(address) => format!("for=\"[{address}]\""),
        };
        if let Some(host) = host.and_then(|host| host.to_str().ok()) {
            // The host was validated to contain neither quotes nor backslashes.
            text.push_str(";host=\"");
            text.push_str(host);
            text.push('"');
        }
        text.push_str(";proto=");
        text.push_str(self.scheme());
        HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("for=unknown"))
    }
}

/// Appends to an existing list in one line, because an application may read only the first line.
fn append(headers: &mut HeaderMap, name: HeaderName, value: HeaderValue) {
    let mut before = headers.get_all(&name).iter().peekable();
    if before.peek().is_none() {
        headers.insert(name, value);
        return;
    }
    let mut joined = Vec::with_capacity(128);
    for line in before {
        joined.extend_from_slice(line.as_bytes());
        joined.extend_from_slice(b", ");
    }
    joined.extend_from_slice(value.as_bytes());
    // Valid values joined by commas are valid.
    headers.insert(name, HeaderValue::from_bytes(&joined).unwrap_or(value));
}

/// Whether a header describes the client.
pub(super) fn describes_client(name: &HeaderName) -> bool {
    *name == X_REAL_IP || kind(name).is_some()
}

/// The kind of a header that may be trusted; `X-Real-IP` has none.
fn kind(name: &HeaderName) -> Option<ForwardingHeader> {
    if *name == FORWARDED {
        return Some(ForwardingHeader::Forwarded);
    }
    name.as_str().starts_with(FAMILY).then_some(ForwardingHeader::XForwardedFor)
}

/// Whether an upstream may read a header as another one: to CGI and its descendants, `X_Real_IP` is `X-Real-IP`.
/// nginx drops such headers too.
pub(super) fn is_ambiguous(name: &HeaderName) -> bool {
    name.as_str().as_bytes().contains(&b'_')
}

/// Headers by which a client can make an application serve another method or target than the one that was limited, or
/// believe another address; and `Proxy`, which CGI passes on as the variable `HTTP_PROXY`.
const OVERRIDES: [HeaderName; 7] = [
    HeaderName::from_static("x-http-method-override"),
    HeaderName::from_static("x-http-method"),
    HeaderName::from_static("x-method-override"),
    HeaderName::from_static("x-original-url"),
    HeaderName::from_static("x-rewrite-url"),
    HeaderName::from_static("true-client-ip"),
    HeaderName::from_static("proxy"),
];

/// Whether a header overrides a part of the request.
pub(super) fn is_override(name: &HeaderName) -> bool {
    // By length first, because this runs for every header of every request.
    matches!(name.as_str().len(), 5 | 13 | 14 | 17 | 22) && OVERRIDES.contains(name)
}

/// Removes headers that describe the client, except for the trusted kind, and ambiguous spellings of them.
fn remove(headers: &mut HeaderMap, trusted_header: Option<ForwardingHeader>, keeps_overrides: bool) {
    let is_untrusted = |name: &&HeaderName| {
        (!keeps_overrides && is_override(name))
            || is_ambiguous(name)
            || describes_client(name) && (kind(name).is_none() || kind(name) != trusted_header)
    };
    let found: SmallVec<[HeaderName; 4]> = headers.keys().filter(is_untrusted).cloned().collect();
    for name in &found {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: [(&str, &str); 9] = [
        ("x-forwarded-for", "1.2.3.4"),
        ("x-forwarded-for", "5.6.7.8"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-prefix", "/admin"),
        ("x-real-ip", "1.2.3.4"),
        ("forwarded", "for=1.2.3.4"),
        ("x_forwarded_for", "1.2.3.4"),
        ("x_real_ip", "1.2.3.4"),
        ("x_api_key_id", "another"),
    ];

    fn written(
        trusted_header: Option<ForwardingHeader>,
        format: ForwardedHeaders,
        sent: &[(&'static str, &'static str)],
    ) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for (name, value) in sent {
            headers.append(*name, HeaderValue::from_static(value));
        }
        let origin = PeerOrigin::new("::ffff:203.0.113.9".parse().unwrap(), trusted_header.is_some(), false);
        let host = HeaderValue::from_static("a.example:81");
        origin.write_headers(&mut headers, Some(&host), format, trusted_header);
        let mut lines: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        lines.sort();
        lines
    }

    /// Fails when our values are appended to the headers of untrusted peers.
    #[test]
    fn untrusted_forwarding_headers_are_removed() {
        let ours =
            ["x-forwarded-for: 203.0.113.9", "x-forwarded-host: a.example:81", "x-forwarded-proto: http"];
        assert_eq!(written(None, ForwardedHeaders::XForwarded, &LINES), ours);
        assert_eq!(written(None, ForwardedHeaders::XForwarded, &[]), ours);
        assert_eq!(written(None, ForwardedHeaders::Off, &LINES), Vec::<String>::new());
        let forwarded = r#"forwarded: for=203.0.113.9;host="a.example:81";proto=http"#;
        assert_eq!(written(None, ForwardedHeaders::Forwarded, &LINES), [forwarded]);
    }

    #[test]
    fn trusted_forwarding_header_is_extended_and_others_drop() {
        let ours = r#"for=203.0.113.9;host="a.example:81";proto=http"#;
        assert_eq!(
            written(Some(ForwardingHeader::XForwardedFor), ForwardedHeaders::Both, &LINES),
            [
                &format!("forwarded: {ours}"),
                "x-forwarded-for: 1.2.3.4, 5.6.7.8, 203.0.113.9",
                "x-forwarded-host: a.example:81",
                "x-forwarded-prefix: /admin",
                "x-forwarded-proto: https",
            ]
        );
        assert_eq!(
            written(Some(ForwardingHeader::Forwarded), ForwardedHeaders::Both, &LINES),
            [
                &format!("forwarded: for=1.2.3.4, {ours}"),
                "x-forwarded-for: 203.0.113.9",
                "x-forwarded-host: a.example:81",
                "x-forwarded-proto: http",
            ]
        );
    }

    #[test]
    fn override_headers_of_untrusted_peers_are_removed() {
        let left = |is_trusted: bool, keeps: bool| {
            let mut headers: HeaderMap =
                OVERRIDES.into_iter().map(|name| (name, HeaderValue::from_static("x"))).collect();
            headers.insert("x-kept", HeaderValue::from_static("x"));
            let origin = PeerOrigin::new([192, 0, 2, 1].into(), is_trusted, false).keeping_overrides(keeps);
            origin.write_headers(&mut headers, None, ForwardedHeaders::Off, None);
            headers.len()
        };
        assert_eq!(left(false, false), 1);
        assert_eq!(left(false, true), 1 + OVERRIDES.len());
        assert_eq!(left(true, false), 1 + OVERRIDES.len());
    }

    #[test]
    fn ipv6_address_is_quoted_in_forwarded() {
        let origin = PeerOrigin::new("2001:db8::1".parse().unwrap(), false, true);
        assert_eq!(origin.element(None), r#"for="[2001:db8::1]";proto=https"#);
    }
}
