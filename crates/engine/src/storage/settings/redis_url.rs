//! Redis URLs. They may contain a password and are therefore never printed.

use hivemind_config::form::{Form, Noun};
use hivemind_config::value_kind::ValueKind;
use std::fmt;

/// The URL of a Redis server.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl(String);

pub(super) const REDIS_URL: ValueKind<RedisUrl> = ValueKind {
    what: "a URL of redis, rediss or redis+unix",
    example: "redis://127.0.0.1:6379",
    bare: false,
    secret: true,
    form: Form::Pattern("^(redis|rediss|redis\\+unix|unix)://\\S+$"),
    noun: Some(Noun { one: "URL", several: "URLs" }),
    parse: RedisUrl::new,
};

const SCHEMES: [&str; 4] = ["redis", "rediss", "redis+unix", "unix"];

impl RedisUrl {
    fn new(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let sound = SCHEMES.contains(&scheme) && !rest.is_empty() && !rest.contains(char::is_whitespace);
        sound.then(|| Self(text.to_owned()))
    }

    /// The whole URL with its password. Only for connecting.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn scheme(&self) -> &str {
        self.0.split_once("://").map_or("", |(scheme, _)| scheme)
    }

    pub(super) fn is_tls(&self) -> bool {
        self.scheme() == "rediss"
    }

    pub(super) fn is_unix_socket(&self) -> bool {
        matches!(self.scheme(), "unix" | "redis+unix")
    }

    /// Whether it contains a password, which lists of processes and environment variables would expose.
    pub(super) fn has_password(&self) -> bool {
        let rest = self.0.split_once("://").map_or("", |(_, rest)| rest);
        if self.is_unix_socket() {
            let query = rest.split_once('?').map_or("", |(_, query)| query);
            return query.split('&').any(|pair| pair.starts_with("pass="));
        }
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'))
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.has_password() {
            return write!(f, "RedisUrl({}://..)", self.scheme());
        }
        write!(f, "RedisUrl({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::RedisUrl;

    // Seen failing on: passwords in the query were not found.
    #[test]
    fn redis_url_password_is_detected_and_never_printed() {
        for (url, has_password) in [
            ("redis://h", false),
            ("redis://h:6379/0", false),
            ("redis://[2001:db8::1]:6379", false),
            ("redis://user@h:6379", false),
            ("redis://:hunter2@h:6379", true),
            ("rediss://user:hunter2@h:6379/1", true),
            ("rediss://user:hun@ter2@h:6379/1", true),
            ("redis://h:6379/0?a=b@c:d", false),
            ("redis+unix:///run/redis.sock", false),
            ("unix:///run/redis.sock?db=1&user=a&pass=hunter2", true),
        ] {
            let url = RedisUrl::new(url).unwrap();
            assert_eq!(url.has_password(), has_password, "{}", url.as_str());
            assert!(!format!("{url:?}").contains("ter2"), "{url:?}");
        }
        for wrong in ["", "redis", "redis://", "redis:/h", "http://h", "redis://h h", "REDIS//h"] {
            assert_eq!(RedisUrl::new(wrong), None, "{wrong}");
        }
    }
}
