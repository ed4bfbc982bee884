//! What the upstream is told of the client. Of these headers it gets what we wrote, or what a trusted
//! proxy did with our part added; never what a client made up. A trusted proxy is believed in the one kind of
//! header that it is known to write: the others it may pass on from anybody.

use crate::config::gateway::ForwardedHeaders;
use hivemind_tower::ForwardingHeader;
use http::header::{FORWARDED, HeaderMap, HeaderName, HeaderValue};
use smallvec::SmallVec;
use std::net::IpAddr;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");
const FAMILY: &str = "x-forwarded-";

/// The other end of a connection, as it is told on. Made once for each connection.
pub(super) struct Origin {
    pub(super) address: IpAddr,
    text: HeaderValue,
    /// Whether what it says of those before it is believed.
    pub(super) is_trusted: bool,
    pub(super) is_tls: bool,
}

impl Origin {
    pub(super) fn new(address: IpAddr, is_trusted: bool, is_tls: bool) -> Self {
        let address = address.to_canonical();
        // An address is of digits, dots and colons.
        let text = HeaderValue::from_str(&address.to_string());
        let text = text.unwrap_or_else(|_| HeaderValue::from_static("unknown"));
        Self { address, text, is_trusted, is_tls }
    }

    const fn scheme(&self) -> &'static str {
        if self.is_tls { "https" } else { "http" }
    }

    /// Writes the headers that this service wants, and removes what is not to be believed: all, or what is
    /// not of the kind that is `believed` of a trusted peer.
    pub(super) fn tell(
        &self,
        headers: &mut HeaderMap,
        host: Option<&HeaderValue>,
        written: ForwardedHeaders,
        believed: Option<ForwardingHeader>,
    ) {
        remove(headers, believed.filter(|_| self.is_trusted));
        if matches!(written, ForwardedHeaders::XForwarded | ForwardedHeaders::Both) {
            self.tell_x_forwarded(headers, host);
        }
        if matches!(written, ForwardedHeaders::Forwarded | ForwardedHeaders::Both) {
            let element = self.element(host);
            append(headers, FORWARDED, element);
        }
    }

    fn tell_x_forwarded(&self, headers: &mut HeaderMap, host: Option<&HeaderValue>) {
        headers.reserve(3); // Growing once costs less than thrice.
        append(headers, X_FORWARDED_FOR, self.text.clone());
        // What the first proxy saw is what the client asked for.
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
            // A host was checked to have neither quotes nor backslashes.
            text.push_str(";host=\"");
            text.push_str(host);
            text.push('"');
        }
        text.push_str(";proto=");
        text.push_str(self.scheme());
        HeaderValue::from_str(&text).unwrap_or_else(|_| HeaderValue::from_static("for=unknown"))
    }
}

/// Adds to the list that is there, in one line: an application may read the first line only.
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
    // Of valid values with a comma between them.
    headers.insert(name, HeaderValue::from_bytes(&joined).unwrap_or(value));
}

/// Whether a header tells of clients.
pub(super) fn tells_of_clients(name: &HeaderName) -> bool {
    *name == X_REAL_IP || kind(name).is_some()
}

/// Of which kind a header is that may be believed; `X-Real-IP` is of neither.
fn kind(name: &HeaderName) -> Option<ForwardingHeader> {
    if *name == FORWARDED {
        return Some(ForwardingHeader::Forwarded);
    }
    name.as_str().starts_with(FAMILY).then_some(ForwardingHeader::XForwardedFor)
}

/// Whether those behind may read a header as another: to CGI, and to all that took over its names, `X_Real_IP`
/// is `X-Real-IP`. nginx leaves them out as well.
pub(super) fn is_ambiguous(name: &HeaderName) -> bool {
    name.as_str().as_bytes().contains(&b'_')
}

/// Removes what tells of clients, whoever reads it behind, but for the kind that is believed; and what
/// could be read as such.
fn remove(headers: &mut HeaderMap, believed: Option<ForwardingHeader>) {
    let is_made_up = |name: &&HeaderName| {
        is_ambiguous(name) || tells_of_clients(name) && (kind(name).is_none() || kind(name) != believed)
    };
    let found: SmallVec<[HeaderName; 4]> = headers.keys().filter(is_made_up).cloned().collect();
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

    fn told(
        believed: Option<ForwardingHeader>,
        written: ForwardedHeaders,
        sent: &[(&'static str, &'static str)],
    ) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for (name, value) in sent {
            headers.append(*name, HeaderValue::from_static(value));
        }
        let origin = Origin::new("::ffff:203.0.113.9".parse().unwrap(), believed.is_some(), false);
        let host = HeaderValue::from_static("a.example:81");
        origin.tell(&mut headers, Some(&host), written, believed);
        let mut lines: Vec<String> =
            headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        lines.sort();
        lines
    }

    /// Seen failing with the headers of untrusted peers added to.
    #[test]
    fn what_an_untrusted_peer_says_of_others_never_passes() {
        let ours =
            ["x-forwarded-for: 203.0.113.9", "x-forwarded-host: a.example:81", "x-forwarded-proto: http"];
        assert_eq!(told(None, ForwardedHeaders::XForwarded, &LINES), ours);
        assert_eq!(told(None, ForwardedHeaders::XForwarded, &[]), ours);
        assert_eq!(told(None, ForwardedHeaders::Off, &LINES), Vec::<String>::new());
        let forwarded = r#"forwarded: for=203.0.113.9;host="a.example:81";proto=http"#;
        assert_eq!(told(None, ForwardedHeaders::Forwarded, &LINES), [forwarded]);
    }

    #[test]
    fn a_trusted_proxys_list_is_added_to_in_one_line_and_what_it_does_not_write_ends_here() {
        let ours = r#"for=203.0.113.9;host="a.example:81";proto=http"#;
        assert_eq!(
            told(Some(ForwardingHeader::XForwardedFor), ForwardedHeaders::Both, &LINES),
            [
                &format!("forwarded: {ours}"),
                "x-forwarded-for: 1.2.3.4, 5.6.7.8, 203.0.113.9",
                "x-forwarded-host: a.example:81",
                "x-forwarded-prefix: /admin",
                "x-forwarded-proto: https",
            ]
        );
        assert_eq!(
            told(Some(ForwardingHeader::Forwarded), ForwardedHeaders::Both, &LINES),
            [
                &format!("forwarded: for=1.2.3.4, {ours}"),
                "x-forwarded-for: 203.0.113.9",
                "x-forwarded-host: a.example:81",
                "x-forwarded-proto: http",
            ]
        );
    }

    #[test]
    fn an_address_of_ipv6_is_quoted_in_forwarded() {
        let origin = Origin::new("2001:db8::1".parse().unwrap(), false, true);
        assert_eq!(origin.element(None), r#"for="[2001:db8::1]";proto=https"#);
    }
}
