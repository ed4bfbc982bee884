//! Name of a counter in Redis: its readable parts and its kind.
//!
//! ```text
//! hivemind:ratelimit:rls:{DOMAIN}:KEY=VALUE,KEY=VALUE:COUNTER
//! hivemind:ratelimit:http:SERVICE:ENDPOINT:{CLIENT}:COUNTER
//! hivemind:ratelimit:ws:conn:SERVICE:{CLIENT}:COUNTER
//! hivemind:ratelimit:ws:msg:SERVICE:{CLIENT}:CONNECTION:COUNTER
//! hivemind:ratelimit:ws:open:SERVICE:{CLIENT}:COUNTER
//! hivemind:ratelimit:ip:{ADDRESS}:COUNTER
//! ```
//!
//! Invariant: two different counters never have one name. Each part is
//! percent-encoded, so none can hold a separator, a brace or a `*` (which stands for
//! "no endpoint" here, and for "anything" in a pattern of Redis). A part of more than 256
//! bytes is cut to 64, with 128 bits of its SHA-256 in place of the rest. COUNTER is the
//! algorithm, for windows the period, and the ordinal where it is not 0: as in
//! [`hivemind_core::store::Key`], requests, rate and burst are not part of it.
//!
//! In a cluster, keys whose braces hold the same text are on one slot, and a script
//! can only reach keys of one slot. So the braces hold what all charges of one
//! request share: for HTTP and WebSocket the client, for Envoy's descriptors, of
//! which each may count something else, the domain. The price: one domain is as fast
//! as one shard of the cluster.

use hivemind_core::store::Parts;
use hivemind_core::{Limit, Period};
use sha2::{Digest, Sha256};
use std::fmt::{self, Write};

/// Why a prefix is invalid, with a fix.
///
/// ```
/// use hivemind_redis::{Prefix, PrefixError};
///
/// let error = Prefix::new("my {app}").unwrap_err();
/// assert_eq!(error, PrefixError::Character { found: ' ' });
/// assert!(error.to_string().contains("use letters, digits and"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrefixError {
    /// It is empty.
    #[error("the prefix of Redis keys is empty; leave it out for `{default}`", default = Prefix::DEFAULT)]
    Empty,
    /// It would decide the slot of every key, or break patterns and logs.
    #[error("the prefix of Redis keys holds {found:?}; use letters, digits and `:`, `-`, `_`, `.`, `/`, `~`")]
    Character {
        /// The first invalid character.
        found: char,
    },
}

/// Longest part in bytes that is written completely.
const LONGEST_PART: usize = 256;
/// Readable bytes of a longer part.
const SHOWN_OF_A_LONG_PART: usize = 64;

/// Prefix of every name, so that several services can share one Redis.
///
/// ```
/// use hivemind_core::store::Parts;
/// use hivemind_redis::{CounterSubject, KeyName, CounterKind, Prefix};
///
/// let counted = CounterSubject::Descriptor(Parts { domain: "shop", entries: &[("user", "ada")] });
/// let name = KeyName::new(&Prefix::new("staging")?, counted, CounterKind::Bucket, 0);
/// assert!(name.as_str().starts_with("staging:")); // Next to the names of production.
/// # Ok::<(), hivemind_redis::PrefixError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Prefix(Box<str>);

impl Prefix {
    const DEFAULT: &str = "hivemind:ratelimit";

    /// Names that begin with `prefix` and a colon.
    ///
    /// # Errors
    /// If it is empty, or holds anything but letters, digits and `:-_./~`: a brace
    /// would become the hash tag of every key.
    pub fn new(prefix: &str) -> Result<Self, PrefixError> {
        if prefix.is_empty() {
            return Err(PrefixError::Empty);
        }
        match prefix.chars().find(|c| *c != ':' && !stays(*c)) {
            Some(found) => Err(PrefixError::Character { found }),
            None => Ok(Self(prefix.into())),
        }
    }
}

impl Default for Prefix {
    fn default() -> Self {
        Self(Self::DEFAULT.into())
    }
}

/// The subject that a counter counts.
///
/// ```
/// use hivemind_core::store::Parts;
/// use hivemind_redis::CounterSubject;
///
/// let entries = [("service", "shop"), ("endpoint", "*"), ("client", "ip:203.0.113.9")];
/// let counted = CounterSubject::of(Parts { domain: ":http", entries: &entries });
/// assert_eq!(counted, CounterSubject::Requests { service: "shop", endpoint: None, client: "ip:203.0.113.9" });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CounterSubject<'a> {
    /// Hits on a descriptor of the rate limit service.
    Descriptor(Parts<'a>),
    /// Requests of a client to an endpoint.
    Requests {
        /// The service that is called.
        service: &'a str,
        /// The endpoint; `None` if none matches.
        endpoint: Option<&'a str>,
        /// The client.
        client: &'a str,
    },
    /// WebSocket connections that a client opens.
    Connections {
        /// The service that is called.
        service: &'a str,
        /// The client.
        client: &'a str,
    },
    /// Messages that a client sends on one WebSocket connection.
    Messages {
        /// The service that is called.
        service: &'a str,
        /// The client.
        client: &'a str,
        /// The connection.
        connection: &'a str,
    },
    /// WebSocket connections that a client has open at once.
    OpenConnections {
        /// The service that is called.
        service: &'a str,
        /// The client.
        client: &'a str,
    },
    /// Requests from an address, independent of client names.
    Address {
        /// The address.
        address: &'a str,
    },
}

impl<'a> CounterSubject<'a> {
    /// What the counters of a charge with these parts count. Those of `hivemind-tower` have
    /// domains that begin with a colon, as no domain of a rule file does.
    #[must_use]
    pub fn of(parts: Parts<'a>) -> Self {
        let values = |index: usize| parts.entries.get(index).map_or("", |(_, value)| *value);
        match (parts.domain, parts.entries.len()) {
            (":http", 3) => {
                let endpoint = Some(values(1)).filter(|endpoint| *endpoint != "*");
                Self::Requests { service: values(0), endpoint, client: values(2) }
            }
            (":ws_connection", 2) => Self::Connections { service: values(0), client: values(1) },
            (":ws_message", 3) => {
                Self::Messages { service: values(0), client: values(1), connection: values(2) }
            }
            (":ws_open", 2) => Self::OpenConnections { service: values(0), client: values(1) },
            (":ip_guard", 1) => Self::Address { address: values(0) },
            _ => Self::Descriptor(parts),
        }
    }
}

/// The kind of a counter, as far as its state depends on it.
///
/// ```
/// use hivemind_core::{Limit, Period};
/// use hivemind_redis::CounterKind;
///
/// let kind = |limit| CounterKind::of(&limit);
/// // Another number of requests is the same counter, another window is not.
/// assert_eq!(kind(Limit::fixed_window(5, Period::MINUTE)), kind(Limit::fixed_window(9, Period::MINUTE)));
/// assert_ne!(kind(Limit::fixed_window(5, Period::MINUTE)), kind(Limit::fixed_window(5, Period::HOUR)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CounterKind {
    /// A token bucket; its state means the same at every rate and burst.
    Bucket,
    /// A fixed window of this length.
    FixedWindow(Period),
    /// A sliding window of this length.
    SlidingWindow(Period),
}

impl CounterKind {
    /// The kind of `limit`; `None` for an algorithm that Redis does not support yet.
    #[must_use]
    pub fn of(limit: &Limit) -> Option<Self> {
        match limit {
            Limit::TokenBucket(_) => Some(Self::Bucket),
            Limit::FixedWindow(_) => Some(Self::FixedWindow(limit.period())),
            Limit::SlidingWindow(_) => Some(Self::SlidingWindow(limit.period())),
            _ => None,
        }
    }
}

/// The name of one counter in Redis.
///
/// ```
/// use hivemind_redis::{CounterSubject, KeyName, CounterKind, Prefix};
///
/// let counted = CounterSubject::Connections { service: "chat", client: "ip:203.0.113.9" };
/// let name = |ordinal| KeyName::new(&Prefix::default(), counted, CounterKind::Bucket, ordinal);
/// assert_ne!(name(0), name(1)); // Two buckets on one descriptor.
/// assert_eq!(name(0).as_str(), name(0).to_string());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName(String);

impl KeyName {
    /// The name of the counter of this `kind` for `counted`; `ordinal` distinguishes limits of
    /// one kind on one descriptor.
    #[must_use]
    pub fn new(prefix: &Prefix, counted: CounterSubject<'_>, kind: CounterKind, ordinal: u16) -> Self {
        // Room for the prefix, the kind, a few parts and the counter: one allocation in most cases.
        let mut name = NameWriter(String::with_capacity(prefix.0.len() + 96));
        name.0.push_str(&prefix.0);
        name.counted(counted);
        name.counter(kind, ordinal);
        Self(name.0)
    }

    /// The name of a probe counter, whose number selects its slot. No other counter has this name.
    pub(crate) fn probe(prefix: &Prefix, number: u16) -> Self {
        Self(format!("{}:probe:{{{number}}}", prefix.0))
    }

    /// The name, as Redis gets it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

struct NameWriter(String);

impl NameWriter {
    fn counted(&mut self, counted: CounterSubject<'_>) {
        match counted {
            CounterSubject::Descriptor(parts) => {
                self.0.push_str(":rls");
                self.tag(parts.domain);
                self.entries(&parts);
            }
            CounterSubject::Requests { service, endpoint, client } => {
                self.0.push_str(":http");
                self.part(service);
                match endpoint {
                    Some(endpoint) => self.part(endpoint),
                    None => self.0.push_str(":*"),
                }
                self.tag(client);
            }
            CounterSubject::Connections { service, client } => {
                self.0.push_str(":ws:conn");
                self.part(service);
                self.tag(client);
            }
            CounterSubject::Messages { service, client, connection } => {
                self.0.push_str(":ws:msg");
                self.part(service);
                self.tag(client);
                self.part(connection);
            }
            CounterSubject::OpenConnections { service, client } => {
                self.0.push_str(":ws:open");
                self.part(service);
                self.tag(client);
            }
            CounterSubject::Address { address } => {
                self.0.push_str(":ip");
                self.tag(address);
            }
        }
    }

    fn entries(&mut self, parts: &Parts<'_>) {
        let mut separator = ':';
        for (key, value) in parts.entries {
            self.0.push(separator);
            self.encoded(key);
            self.0.push('=');
            self.encoded(value);
            separator = ',';
        }
    }

    fn counter(&mut self, kind: CounterKind, ordinal: u16) {
        match kind {
            CounterKind::Bucket => self.0.push_str(":bucket"),
            CounterKind::FixedWindow(period) => self.window(":fixed-", period),
            CounterKind::SlidingWindow(period) => self.window(":sliding-", period),
        }
        if ordinal > 0 {
            self.formatted(format_args!(".{ordinal}"));
        }
    }

    /// Writes the period in its largest unit without a remainder, so each period has one text.
    fn window(&mut self, kind: &str, period: Period) {
        let nanos = period.length().as_nanos();
        let (unit, symbol) = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")]
            .into_iter()
            .find(|(unit, _)| nanos.is_multiple_of(*unit))
            .unwrap_or((1, "ns"));
        self.formatted(format_args!("{kind}{}{symbol}", nanos / unit));
    }

    /// The hash tag, which selects the slot. Redis ignores an empty tag, so it contains `%` then, with which no encoded
    /// text ends.
    fn tag(&mut self, part: &str) {
        self.0.push_str(":{");
        if part.is_empty() {
            self.0.push('%');
        }
        self.encoded(part);
        self.0.push('}');
    }

    fn part(&mut self, part: &str) {
        self.0.push(':');
        self.encoded(part);
    }

    /// Cuts a long part and appends its hash: a client chooses its length, and Redis would store it for each
    /// counter. In a part that is not cut, two digits follow each `%`.
    fn encoded(&mut self, part: &str) {
        if part.len() <= LONGEST_PART {
            return self.whole(part);
        }
        let shown = (0..=SHOWN_OF_A_LONG_PART).rev().find_map(|end| part.get(..end));
        self.whole(shown.unwrap_or_default());
        self.0.push_str("%~");
        for byte in Sha256::digest(part).into_iter().take(16) {
            self.formatted(format_args!("{byte:02x}"));
        }
    }

    fn whole(&mut self, part: &str) {
        for c in part.chars() {
            if stays(c) {
                self.0.push(c);
                continue;
            }
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                self.formatted(format_args!("%{byte:02X}"));
            }
        }
    }

    fn formatted(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a `String` cannot fail.
        let _ = self.0.write_fmt(text);
    }
}

/// Characters that are not encoded: the unreserved characters of URLs, and `/` because endpoints are paths.
fn stays(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~' | '/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use hivemind_core::Rate;
    use std::time::Duration;

    fn name(counted: CounterSubject<'_>, kind: CounterKind, ordinal: u16) -> String {
        KeyName::new(&Prefix::default(), counted, kind, ordinal).as_str().to_owned()
    }

    #[test]
    fn key_names_are_readable_and_namespaced_by_frontend() {
        let minute = CounterKind::FixedWindow(Period::MINUTE);
        let entries = [("user", "ann lee"), ("path", "/a:b")];
        let names = [
            (
                name(CounterSubject::Descriptor(Parts { domain: "shop", entries: &entries }), minute, 0),
                "hivemind:ratelimit:rls:{shop}:user=ann%20lee,path=/a%3Ab:fixed-60s",
            ),
            (
                name(
                    CounterSubject::Requests { service: "api", endpoint: Some("/v1"), client: "ip:::1" },
                    CounterKind::Bucket,
                    0,
                ),
                "hivemind:ratelimit:http:api:/v1:{ip%3A%3A%3A1}:bucket",
            ),
            (
                name(
                    CounterSubject::Requests { service: "api", endpoint: None, client: "ip:192.0.2.1" },
                    minute,
                    2,
                ),
                "hivemind:ratelimit:http:api:*:{ip%3A192.0.2.1}:fixed-60s.2",
            ),
            (
                name(
                    CounterSubject::Connections { service: "chat", client: "é" },
                    CounterKind::SlidingWindow(Period::new(Duration::from_millis(1_500)).unwrap()),
                    0,
                ),
                "hivemind:ratelimit:ws:conn:chat:{%C3%A9}:sliding-1500ms",
            ),
            (
                name(
                    CounterSubject::Messages { service: "chat", client: "bob", connection: "17" },
                    CounterKind::Bucket,
                    0,
                ),
                "hivemind:ratelimit:ws:msg:chat:{bob}:17:bucket",
            ),
        ];
        for (name, expected) in names {
            assert_eq!(name, expected);
        }
    }

    #[test]
    fn long_name_part_is_cut_and_stays_unique() {
        let named =
            |client: &str| name(CounterSubject::Connections { service: "s", client }, CounterKind::Bucket, 0);
        let whole = "a".repeat(256);
        assert!(named(&whole).contains(&whole));
        let (long, other) = ("é".repeat(4_000), "é".repeat(4_001));
        assert!(named(&long).len() < 300 && named(&long) != named(&other));
        let shown = named(&long);
        assert!(shown.starts_with("hivemind:ratelimit:ws:conn:s:{%C3%A9"), "{shown}");
        // Who writes what a long one is called gets another name.
        let (_, tag) = shown.split_once('{').unwrap();
        assert_ne!(named(tag.split_once('}').unwrap().0), shown);
    }

    #[test]
    fn invalid_prefix_errors_name_the_remedy() {
        assert_eq!(Prefix::new(""), Err(PrefixError::Empty));
        for (prefix, found) in
            [("a{b", '{'), ("a}b", '}'), ("a b", ' '), ("a*", '*'), ("a\n", '\n'), ("é", 'é')]
        {
            let error = Prefix::new(prefix).unwrap_err();
            assert_eq!(error, PrefixError::Character { found });
            assert!(error.to_string().contains("use letters"), "{error}");
        }
        let other = Prefix::new("team-a:limits").unwrap();
        let counted = CounterSubject::Connections { service: "s", client: "c" };
        assert_eq!(
            KeyName::new(&other, counted, CounterKind::Bucket, 0).as_str(),
            "team-a:limits:ws:conn:s:{c}:bucket"
        );
    }

    #[test]
    fn key_name_depends_on_window_but_not_on_rate() {
        let bucket = |rate, burst| Limit::token_bucket(Rate::per_second(rate).unwrap(), burst).unwrap();
        assert_eq!(CounterKind::of(&bucket(1, 1)), CounterKind::of(&bucket(99, 7)));
        let window = |requests, period| CounterKind::of(&Limit::fixed_window(requests, period));
        assert_eq!(window(1, Period::HOUR), window(2, Period::HOUR));
        assert_ne!(window(1, Period::HOUR), window(1, Period::DAY));
        assert_ne!(window(1, Period::HOUR), CounterKind::of(&Limit::sliding_window(1, Period::HOUR)));
    }
}
