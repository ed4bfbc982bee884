//! Value kinds of the gateway section: hosts, upstreams, path prefixes, methods.

use super::{
    ForwardedHeaders, Forwarding, HostHeader, IdentityStep, LimitHeaders, LogTarget, OnLimit, UpstreamUrl,
};
use hivemind_config::form::Form;
use hivemind_config::spelling::is_falsy;
use hivemind_config::value_kind::{HttpPath, ValueKind, bytes, duration, patterns};
use hivemind_tls::authority;
use http::uri::{Scheme, Uri};
use std::net::Ipv6Addr;
use std::path::PathBuf;
use std::time::Duration;

pub(super) const LIMIT_HEADERS: &[(&str, LimitHeaders)] = &[
    ("ietf", LimitHeaders::Ietf),
    ("x", LimitHeaders::X),
    ("both", LimitHeaders::Both),
    ("off", LimitHeaders::Off),
];
pub(super) const FORWARDED_HEADERS: &[(&str, ForwardedHeaders)] = &[
    ("x_forwarded", ForwardedHeaders::XForwarded),
    ("forwarded", ForwardedHeaders::Forwarded),
    ("both", ForwardedHeaders::Both),
    ("off", ForwardedHeaders::Off),
];
pub(super) const ON_LIMIT: &[(&str, OnLimit)] =
    &[("http429", OnLimit::Http429), ("close_4429", OnLimit::Close4429)];

pub(super) const LISTEN_AT: ValueKind<std::net::SocketAddr> =
    ValueKind::text("an IP address and a port, 0.0.0.0 or [::] for all addresses", "0.0.0.0:10080", |text| {
        text.parse().ok()
    })
    .written(Form::Pattern(patterns::LISTEN))
    .called("ip and port", "ips and ports");
pub(super) const MAX_BODY: ValueKind<Option<u64>> = ValueKind::text(
    "a size above 0 with its unit (B, kB, MB, GB, KiB, MiB or GiB), or off",
    "10MB",
    |text| {
        if is_falsy(text) { Some(None) } else { bytes(text).map(Some) }
    },
)
.written(Form::PatternOrOff(patterns::BYTES))
.called("size or `off`", "sizes");
/// hyper reads a head into a buffer of at least 8 KiB.
pub(super) const HEAD_BYTES: ValueKind<usize> =
    ValueKind::text("a size from 8KiB to 1MiB", "32KiB", |text| {
        let size = bytes(text).filter(|size| (8 << 10..=1 << 20).contains(size))?;
        usize::try_from(size).ok()
    })
    .written(Form::Pattern(patterns::BYTES))
    .called("size", "sizes");
pub(super) const HEAD_COUNT: ValueKind<usize> =
    ValueKind::bare("a whole number from 1 to 1000", "100", |text| {
        text.parse().ok().filter(|count| (1..=1_000).contains(count))
    })
    .written(Form::Whole(1, 1_000));
pub(super) const SPAN_OR_OFF: ValueKind<Option<Duration>> = ValueKind::text(
    "a duration above 0 with its unit (ms, s, m, h or d), at most 365d, or off",
    "60s",
    |text| match duration(text) {
        _ if is_falsy(text) => Some(None),
        Some(span) if !span.is_zero() => Some(Some(span)),
        _ => None,
    },
)
.written(Form::PatternOrOff(patterns::SPAN))
.called("duration or `off`", "durations");
pub(super) const LOG: ValueKind<Option<LogTarget>> = ValueKind::text(
    "off, stdout, or the path of a file",
    "/var/log/hivemind/refused.log",
    |text| match text {
        "stdout" => Some(Some(LogTarget::Stdout)),
        text if is_falsy(text) => Some(None),
        // Otherwise `on` or `true` would be a file of that name.
        text if text.contains(['/', '.']) && !text.contains('\0') => {
            Some(Some(LogTarget::File(PathBuf::from(text))))
        }
        _ => None,
    },
)
.written(Form::PatternOrOff("^(stdout|.*[/.].*)$"))
.called("`off`, `stdout` or path", "paths");
pub(super) const FORWARDING: ValueKind<Forwarding> =
    ValueKind::text("x-forwarded-for or forwarded", "x-forwarded-for", |text| {
        match text.to_ascii_lowercase().as_str() {
            "x-forwarded-for" => Some(Forwarding::XForwardedFor),
            "forwarded" => Some(Forwarding::Forwarded),
            _ => None,
        }
    })
    .written(Form::Pattern(
        "^([Xx]-[Ff][Oo][Rr][Ww][Aa][Rr][Dd][Ee][Dd]-[Ff][Oo][Rr]|[Ff][Oo][Rr][Ww][Aa][Rr][Dd][Ee][Dd])$",
    ))
    .called("`x-forwarded-for`, `forwarded`", "headers");
pub(super) const STEP: ValueKind<IdentityStep> =
    ValueKind::text("session, bearer, api_key or ip", "bearer, ip", |text| match text {
        "session" => Some(IdentityStep::Session),
        "bearer" => Some(IdentityStep::Bearer),
        "api_key" => Some(IdentityStep::ApiKey),
        "ip" => Some(IdentityStep::Ip),
        _ => None,
    })
    .written(Form::Words(&["session", "bearer", "api_key", "ip"]));
pub(super) const COOKIE: ValueKind<String> =
    ValueKind::text("the name of a cookie: letters, digits, `-` and `_`", "hivemind_session", |text| {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        (!text.is_empty() && text.len() <= 256 && text.bytes().all(is_token)).then(|| text.to_owned())
    })
    .called("cookie name", "cookie names");
/// It is sent in headers and is part of counter names.
pub(super) const ID: ValueKind<String> =
    ValueKind::text("a name of 1 to 64 letters, digits, `-`, `_` and `.`", "users", |text| {
        let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        ((1..=64).contains(&text.len()) && text.bytes().all(is_plain)).then(|| text.to_owned())
    })
    .called("name", "names");
pub(super) const HOST: ValueKind<String> = ValueKind::text(
    "the name of a host without a port, or `*.` and a name for all below it",
    "users.example.org",
    host,
)
.called("host", "hosts");
pub(super) const PREFIX: ValueKind<String> =
    ValueKind::text("a path from `/` on, without `//`, `.` or `..` in it", "/users", prefix)
        .written(Form::Pattern("^/\\S*$"))
        .called("path of a URL", "paths of URLs");
pub(super) const PATTERN: ValueKind<String> =
    ValueKind::text("a path from `/` on, where `{name}` is any part", "/users/{id}", |text| {
        let is_plain = |b: u8| b.is_ascii_graphic() && !matches!(b, b'"' | b'\\' | b'?' | b'#');
        (text.starts_with('/') && text.bytes().all(is_plain)).then(|| text.to_owned())
    })
    .written(Form::Pattern("^/\\S*$"))
    .called("path of a URL", "paths of URLs");
pub(super) const METHOD: ValueKind<String> = ValueKind::text("an HTTP method", "POST", |text| {
    let sound = (1..=32).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphabetic());
    sound.then(|| text.to_ascii_uppercase())
})
.written(Form::Pattern("^[A-Za-z]{1,32}$"))
.called("method", "methods");
pub(super) const UPSTREAM: ValueKind<UpstreamUrl> = ValueKind::text(
    "a server URL, `http://` or `https://` with host and port and without a path",
    "http://127.0.0.1:3000",
    upstream,
)
.written(Form::Pattern("^https?://[^/?#@\\s]+/?$"))
.called("URL", "URLs");
pub(super) const HOST_HEADER: ValueKind<HostHeader> =
    ValueKind::text("keep, upstream, or the name of a host", "keep", |text| match text {
        "keep" => Some(HostHeader::Keep),
        "upstream" => Some(HostHeader::Upstream),
        text => authority::host(text).map(|_| HostHeader::Set(text.to_owned())),
    })
    .called("`keep`, `upstream` or host", "hosts");

fn host(text: &str) -> Option<String> {
    let name = text.to_ascii_lowercase();
    if let Some(address) = name.strip_prefix('[') {
        let address: Ipv6Addr = address.strip_suffix(']')?.parse().ok()?;
        return Some(format!("[{address}]"));
    }
    let name = name.strip_suffix('.').unwrap_or(&name);
    let below = name.strip_prefix("*.").unwrap_or(name);
    (authority::host(below) == Some(below)).then(|| name.to_owned())
}

fn prefix(text: &str) -> Option<String> {
    let path = HttpPath::new(text)?;
    let path = path.as_str();
    let path = if path == "/" { path } else { path.strip_suffix('/').unwrap_or(path) };
    let is_name = |part: &str| !matches!(part, "" | "." | "..");
    let sound = path == "/" || path.split('/').skip(1).all(is_name);
    sound.then(|| path.to_owned())
}

pub(super) fn upstream(text: &str) -> Option<UpstreamUrl> {
    let uri: Uri = text.parse().ok()?;
    let is_tls = match uri.scheme()? {
        scheme if *scheme == Scheme::HTTP => false,
        scheme if *scheme == Scheme::HTTPS => true,
        _ => return None,
    };
    let authority = uri.authority()?;
    let host = host(authority.host()).filter(|host| !host.starts_with('*'))?;
    let has_no_path = uri.path_and_query().is_none_or(|path| path.as_str() == "/") && !text.contains('#');
    // `http` ignores a port that is not a number, which would then be the default port here.
    let is_whole = authority.as_str().len() == authority.host().len()
        || authority.port().is_some_and(|port| port.as_u16() > 0);
    let sound = has_no_path && is_whole && !authority.as_str().contains('@');
    let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    sound.then_some(UpstreamUrl { is_tls, host, port })
}
