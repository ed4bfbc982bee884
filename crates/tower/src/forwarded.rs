//! Forwarding headers: `Forwarded` (RFC 7239, strictly) and `X-Forwarded-For` (leniently, as it is used).
//!
//! Hops are parsed from right to left, because the right end was written by our own proxies. This also protects
//! against open quotes: parsed from the right, the hop that a proxy appends is complete before the client's text
//! begins. The parsed length is bounded, and parsing allocates only for escapes in quoted strings.

use http::header::{HeaderMap, HeaderName};
use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The maximum of bytes that are parsed, over all lines, from the right.
pub(crate) const MAX_BYTES: usize = 4_096;
/// The maximum of hops that are followed.
pub(crate) const MAX_HOPS: usize = 32;

/// The header in which your proxies report the client. Only one is read, because a client can send the header
/// that the proxies do not write.
///
/// ```
/// use hivemind_tower::{ClientAddress, ForwardingHeader, Identity};
///
/// let identity = Identity::by_address(ClientAddress::behind_hops(1, ForwardingHeader::Forwarded)?);
/// let request = http::Request::get("/").header("forwarded", "for=203.0.113.9;proto=https");
/// let (request, ()) = request.body(())?.into_parts();
/// assert_eq!(identity.identify(&request, Some([10, 0, 0, 1].into())).name(), "ip:203.0.113.9");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ForwardingHeader {
    /// `Forwarded`, RFC 7239.
    Forwarded,
    /// `X-Forwarded-For`, as most proxies write it.
    XForwardedFor,
}

static FORWARDED: HeaderName = http::header::FORWARDED;
static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

impl ForwardingHeader {
    fn name(self) -> &'static HeaderName {
        match self {
            Self::Forwarded => &FORWARDED,
            Self::XForwardedFor => &X_FORWARDED_FOR,
        }
    }

    /// The hops of all lines, the nearest first; `None` for a hop without a valid address.
    pub(crate) fn hops(self, headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
        let mut budget = MAX_BYTES;
        let lines = headers.get_all(self.name()).into_iter().rev();
        lines
            .flat_map(move |line| {
                let from = line.len().saturating_sub(budget);
                budget = budget.saturating_sub(line.len());
                let read = line.as_bytes().get(from..).unwrap_or_default();
                Elements { rest: Some(read), has_strings: self == Self::Forwarded, cut: from > 0 }
            })
            .take(MAX_HOPS)
            .map(move |element| self.address(element?))
    }

    /// The first hop of the first line.
    pub(crate) fn leftmost(self, headers: &HeaderMap) -> Option<IpAddr> {
        let line = headers.get(self.name()).filter(|line| line.len() <= MAX_BYTES)?;
        let has_strings = self == Self::Forwarded;
        let elements = Elements { rest: Some(line.as_bytes()), has_strings, cut: false };
        self.address(elements.last()??)
    }

    fn address(self, element: &[u8]) -> Option<IpAddr> {
        let element = std::str::from_utf8(element).ok()?;
        match self {
            Self::Forwarded => forwarded_for(element),
            Self::XForwardedFor => parse_node(element, NodeSyntax::Loose),
        }
    }
}

/// The elements of one line from right to left, without empty list elements (RFC 9110, 5.6.1). `None` is an
/// element whose beginning is beyond the bound.
struct Elements<'a> {
    rest: Option<&'a [u8]>,
    has_strings: bool,
    cut: bool,
}

impl<'a> Iterator for Elements<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let rest = self.rest.take()?;
            let comma = last_comma(rest, self.has_strings);
            let element = match comma {
                Some(at) => {
                    self.rest = rest.get(..at);
                    rest.get(at + 1..).unwrap_or_default()
                }
                None if self.cut => return Some(None),
                None => rest,
            };
            let element = element.trim_ascii();
            if !element.is_empty() {
                return Some(Some(element));
            }
        }
    }
}

/// The last comma outside quotes.
fn last_comma(bytes: &[u8], has_strings: bool) -> Option<usize> {
    let mut inside = false;
    for (at, byte) in bytes.iter().enumerate().rev() {
        match byte {
            b'"' if has_strings => {
                let before = bytes.get(..at).unwrap_or_default();
                let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\').count();
                // After an odd number of backslashes the quote is escaped.
                inside ^= backslashes % 2 == 0;
            }
            b',' if !inside => return Some(at),
            _ => {}
        }
    }
    None
}

/// The address of the single `for` parameter of an element; `None` without one, with two, or if any part of the
/// element violates RFC 7239.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let mut rest = element;
    let mut found = None;
    while !rest.is_empty() {
        // Empty parameters are allowed.
        if let Some(behind) = rest.strip_prefix(';') {
            rest = behind;
            continue;
        }
        let (name, behind) = rest.split_once('=')?;
        let (value, behind) = parse_value(behind)?;
        if !is_token(name) || !(behind.is_empty() || behind.starts_with(';')) {
            return None;
        }
        rest = behind;
        if name.eq_ignore_ascii_case("for") && found.replace(value).is_some() {
            return None;
        }
    }
    parse_node(&found?, NodeSyntax::Rfc7239)
}

/// Parses a token or quoted string, and returns the rest.
fn parse_value(text: &str) -> Option<(Cow<'_, str>, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(';').unwrap_or(text.len());
        let (token, behind) = text.split_at(end);
        return is_token(token).then_some((Cow::Borrowed(token), behind));
    };
    // Without escapes, which is the common case, the text can be borrowed.
    if let Some((plain, behind)) = quoted.split_once('"').filter(|(plain, _)| !plain.contains('\\')) {
        return Some((Cow::Borrowed(plain), behind));
    }
    let mut unescaped = String::new();
    let mut chars = quoted.chars();
    loop {
        match chars.next()? {
            '"' => return Some((Cow::Owned(unescaped), chars.as_str())),
            '\\' => unescaped.push(chars.next()?),
            other => unescaped.push(other),
        }
    }
}

fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NodeSyntax {
    /// IPv6 has to be in brackets.
    Rfc7239,
    /// IPv6 can be bare.
    Loose,
}

/// The address of a node without port, brackets and zone; `None` for `unknown`, obfuscated names and invalid text.
fn parse_node(text: &str, syntax: NodeSyntax) -> Option<IpAddr> {
    if let Some(bracketed) = text.strip_prefix('[') {
        let (address, port) = bracketed.split_once(']')?;
        return (port.is_empty() || is_port(port.strip_prefix(':')?)).then(|| parse_ipv6(address))?;
    }
    if syntax == NodeSyntax::Loose && text.bytes().filter(|byte| *byte == b':').count() > 1 {
        return parse_ipv6(text);
    }
    let (address, port) = text.split_once(':').map_or((text, None), |(address, port)| (address, Some(port)));
    let address: Ipv4Addr = address.parse().ok()?;
    port.is_none_or(is_port).then_some(IpAddr::V4(address))
}

fn parse_ipv6(text: &str) -> Option<IpAddr> {
    let (address, zone) = text.split_once('%').unwrap_or((text, "none"));
    let address: Ipv6Addr = address.parse().ok()?;
    (!zone.is_empty()).then_some(IpAddr::V6(address))
}

/// Up to five digits, or an obfuscated port.
fn is_port(text: &str) -> bool {
    let is_number = (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_obfuscated = |name: &str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    };
    is_number || text.strip_prefix('_').is_some_and(is_obfuscated)
}
