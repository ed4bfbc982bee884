//! Kinds of values: parsers, and the texts that describe a valid value.

use super::form::{Form, Noun};
use super::spelling::{is_falsy, is_truthy};
use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

/// Largest integer that every JSON reader keeps exact.
const MOST: u64 = (1 << 53) - 1;
const MOST_U32: u64 = 4_294_967_295;
const MOST_PORT: u64 = 65_535;

/// Kind of value: parser, description and example.
pub struct ValueKind<T> {
    /// Continues "`server.host` is ...".
    pub what: &'static str,
    pub example: &'static str,
    /// Written without quotes: a number, or true and false.
    pub bare: bool,
    /// May carry a password, so a problem shows neither the value nor its line.
    pub secret: bool,
    /// Form in the JSON Schema.
    pub form: Form,
    /// Name on the reference page; `None`: the name of its form.
    pub noun: Option<Noun>,
    pub parse: fn(&str) -> Option<T>,
}

impl<T> ValueKind<T> {
    pub const fn text(what: &'static str, example: &'static str, parse: fn(&str) -> Option<T>) -> Self {
        Self { what, example, bare: false, secret: false, form: Form::Text, noun: None, parse }
    }

    pub const fn bare(what: &'static str, example: &'static str, parse: fn(&str) -> Option<T>) -> Self {
        Self { what, example, bare: true, secret: false, form: Form::Whole(0, MOST), noun: None, parse }
    }

    #[must_use]
    pub const fn written(mut self, form: Form) -> Self {
        self.form = form;
        self
    }

    /// Sets singular and plural for the reference page's column of types.
    #[must_use]
    pub const fn called(mut self, one: &'static str, several: &'static str) -> Self {
        self.noun = Some(Noun { one, several });
        self
    }
}

/// The name of an HTTP header field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderName(String);

impl HeaderName {
    /// Parses a token of RFC 9110, the only text that may precede the colon.
    pub fn new(text: &str) -> Option<Self> {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let sound = !text.is_empty() && text.len() <= 256 && text.bytes().all(is_token);
        sound.then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The path of an HTTP request, such as `/metrics`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpPath(String);

impl HttpPath {
    pub fn new(text: &str) -> Option<Self> {
        let is_path = |byte: u8| byte.is_ascii_graphic() && !b"?#{}\\\"<>".contains(&byte);
        (text.starts_with('/') && text.bytes().all(is_path)).then(|| Self(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

pub const FLAG: ValueKind<bool> = ValueKind::bare("true or false", "true", |text| {
    if is_truthy(text) { Some(true) } else { is_falsy(text).then_some(false) }
})
.written(Form::Flag);
pub const PORT: ValueKind<u16> =
    ValueKind::bare("a port from 1 to 65535, or 0 for any that is free", "8081", |text| text.parse().ok())
        .written(Form::Whole(0, MOST_PORT));
pub const PORT_OR_OFF: ValueKind<Option<u16>> =
    ValueKind::bare("a port from 1 to 65535, 0 for any that is free, or off", "8081", |text| {
        // `off` cannot be written without quotes in TOML.
        if is_falsy(text) { Some(None) } else { text.parse().ok().map(Some) }
    })
    .written(Form::WholeOrOff(0, MOST_PORT))
    .called("port or `off`", "ports");
pub const COUNT: ValueKind<NonZeroUsize> =
    ValueKind::bare("a whole number of at least 1", "1000", |text| text.parse().ok())
        .written(Form::Whole(1, MOST));
/// A count with an upper bound for the schema. The caller rejects larger values with a remedy.
pub const fn count_up_to(most: usize) -> ValueKind<NonZeroUsize> {
    COUNT.written(Form::Whole(1, most as u64))
}

pub const AMOUNT: ValueKind<NonZeroU32> =
    ValueKind::bare("a whole number from 1 to 4294967295", "100", |text| text.parse().ok())
        .written(Form::Whole(1, MOST_U32));
pub const NUMBER: ValueKind<u32> =
    ValueKind::bare("a whole number from 0 to 4294967295", "100", |text| text.parse().ok())
        .written(Form::Whole(0, MOST_U32));
pub const MILLIS: ValueKind<Duration> =
    ValueKind::bare("a whole number of milliseconds, at least 1", "500", |text| {
        text.parse::<NonZeroU32>().ok().map(|number| Duration::from_millis(number.get().into()))
    })
    .written(Form::Whole(1, MOST_U32));
pub const RATIO: ValueKind<f64> = ValueKind::bare("a number from 0 to 1", "0.8", |text| {
    text.parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio))
})
.written(Form::Share);
pub const IPV6_PREFIX: ValueKind<u8> =
    ValueKind::bare("the length of an IPv6 prefix, 48 to 128", "64", |text| {
        text.parse().ok().filter(|length| (48..=128).contains(length))
    })
    .written(Form::Whole(48, 128));
pub const DURATION: ValueKind<Duration> =
    ValueKind::text("a duration with its unit (ms, s, m, h or d), at most 365d", "60s", duration)
        .written(Form::Pattern("^[0-9]+ *(ms|s|m|h|d)$"))
        .called("duration", "durations");
pub const SPAN: ValueKind<Duration> =
    ValueKind::text("a duration above 0 with its unit (ms, s, m, h or d), at most 365d", "60s", |text| {
        duration(text).filter(|span| !span.is_zero())
    })
    .written(Form::Pattern(patterns::SPAN))
    .called("duration", "durations");
pub const IP: ValueKind<IpAddr> =
    ValueKind::text("an IP address, 0.0.0.0 or :: for all of them", "127.0.0.1", |text| text.parse().ok())
        .written(Form::Pattern("^[0-9A-Fa-f.:]+$"))
        .called("ip", "ips");
pub const LISTEN: ValueKind<SocketAddr> =
    ValueKind::text("an IP address and a port", "192.0.2.1:7946", |text| text.parse().ok())
        .written(Form::Pattern(patterns::LISTEN))
        .called("ip and port", "ips and ports");
/// Not resolved here: the name may exist only after the pod has started.
pub const HOST_PORT: ValueKind<String> =
    ValueKind::text("a host and a port", "peer1.example.com:7946", |text| {
        let (host, port) = text.rsplit_once(':')?;
        let sound = !host.is_empty() && host.len() <= 255 && !host.contains(char::is_whitespace);
        let port = port.parse::<u16>().ok().filter(|port| *port != 0);
        (sound && port.is_some()).then(|| text.to_owned())
    })
    .written(Form::Pattern("^\\S+:[0-9]{1,5}$"))
    .called("host and port", "hosts and ports");
pub const NETWORK: ValueKind<String> = ValueKind::text("an IP network", "10.0.0.0/8", |text| {
    let (address, length) = text.split_once('/').map_or((text, None), |(a, l)| (a, Some(l)));
    let longest: u8 = if address.parse::<IpAddr>().ok()?.is_ipv4() { 32 } else { 128 };
    let length: u8 = length.map_or(Some(longest), |length| length.parse().ok())?;
    (length <= longest).then(|| text.to_owned())
})
.written(Form::Pattern("^[0-9A-Fa-f.:]+(/[0-9]{1,3})?$"))
.called("network", "networks");
pub const PATH: ValueKind<PathBuf> = ValueKind::text("the path of a file", "/etc/hivemind/file", |text| {
    (!text.is_empty() && !text.contains('\0')).then(|| PathBuf::from(text))
})
.called("path", "paths");
pub const WORD: ValueKind<String> =
    ValueKind::text("a text", "name", |text| (!text.is_empty()).then(|| text.to_owned()));
pub const HTTP_PATH: ValueKind<HttpPath> = ValueKind::text("a path from `/` on", "/metrics", HttpPath::new)
    .written(Form::Pattern("^/\\S*$"))
    .called("path of a URL", "paths of URLs");
pub const HEADER: ValueKind<HeaderName> = ValueKind::text(
    "the name of an HTTP header: letters, digits and `-`",
    "RateLimit-Limit",
    HeaderName::new,
)
.written(Form::Pattern("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}$"))
.called("header name", "header names");
pub const BYTES: ValueKind<u64> =
    ValueKind::text("a size above 0 with its unit (B, kB, MB, GB, KiB, MiB or GiB)", "10MB", bytes)
        .written(Form::Pattern(patterns::BYTES))
        .called("size", "sizes");

/// Longest duration: enough for any setting, and small enough that adding it to a clock cannot overflow.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

pub fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = number_and_unit(text)?;
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let span = Duration::from_millis(number.checked_mul(millis)?);
    (span <= LONGEST).then_some(span)
}

pub fn bytes(text: &str) -> Option<u64> {
    let (number, unit) = number_and_unit(text)?;
    let factor = match unit {
        "B" => 1,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor).filter(|bytes| *bytes > 0)
}

fn number_and_unit(text: &str) -> Option<(u64, &str)> {
    let (number, unit) = text.split_at_checked(text.find(|c: char| !c.is_ascii_digit())?)?;
    Some((number.parse().ok()?, unit.trim_start()))
}

/// Patterns shared by several kinds.
pub mod patterns {
    pub const SPAN: &str = "^0*[1-9][0-9]* *(ms|s|m|h|d)$";
    pub const BYTES: &str = "^0*[1-9][0-9]* *(B|kB|KB|MB|GB|KiB|MiB|GiB)$";
    pub const LISTEN: &str = "^(\\[[0-9A-Fa-f.:%]+\\]|[0-9.]+):[0-9]{1,5}$";
}
