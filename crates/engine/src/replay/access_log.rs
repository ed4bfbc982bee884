//! Access logs of nginx and Apache, in the combined format or its prefix, the
//! common format:
//!
//! ```text
//! 203.0.113.9 - ada [15/Nov/2026:19:00:00 +0000] "GET /login HTTP/1.1" 200 512 "-" "curl/8"
//! ```

use super::recorded_request::{LineError, RecordedRequest};
use anyhow::bail;
use std::borrow::Cow;

/// The fields of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    RemoteAddress,
    RemoteUser,
    Method,
    Path,
    Status,
    Referer,
    UserAgent,
}

const FIELDS: [(&str, Field); 7] = [
    ("remote_address", Field::RemoteAddress),
    ("remote_user", Field::RemoteUser),
    ("method", Field::Method),
    ("path", Field::Path),
    ("status", Field::Status),
    ("referer", Field::Referer),
    ("user_agent", Field::UserAgent),
];

/// Reads access logs; selected fields become the entries of each request.
pub struct AccessLogReader {
    domain: String,
    entries: Vec<(&'static str, Field)>,
}

impl AccessLogReader {
    pub fn new(domain: String, entries: &[String]) -> anyhow::Result<Self> {
        let mut chosen = Vec::new();
        for name in entries {
            match FIELDS.iter().find(|(known, _)| known == name) {
                Some(field) => chosen.push(*field),
                None => bail!(
                    "unknown field `{name}` in an access log; choose from {}",
                    FIELDS.map(|(name, _)| name).join(", ")
                ),
            }
        }
        Ok(Self { domain, entries: chosen })
    }

    pub fn read<'a>(&'a self, line: &'a str) -> Result<RecordedRequest<'a>, LineError> {
        let fields = LogFields::from_line(line).map_err(|reason| LineError::NoLogEntry { reason })?;
        let entries =
            self.entries.iter().map(|(name, field)| (Cow::from(*name), Cow::from(fields.field(*field))));
        RecordedRequest::new(fields.t_ms, Cow::from(&self.domain), entries.collect(), 1)
    }
}

struct LogFields<'a> {
    remote_address: &'a str,
    remote_user: &'a str,
    t_ms: u64,
    request: &'a str,
    status: &'a str,
    referer: &'a str,
    user_agent: &'a str,
}

impl<'a> LogFields<'a> {
    fn from_line(line: &'a str) -> Result<Self, &'static str> {
        let (remote_address, rest) = line.split_once(' ').ok_or("it has only one word")?;
        let (names, rest) = rest.split_once(" [").ok_or("no `[` before the time")?;
        let (_, remote_user) = names.split_once(' ').ok_or("no user after the address")?;
        let (time, rest) = rest.split_once("] ").ok_or("no `]` after the time")?;
        let (request, rest) = quoted(rest).ok_or("no request in quotes")?;
        let mut words = rest.split_ascii_whitespace();
        let status = words.next().ok_or("no status after the request")?;
        // The common format ends with the size; the combined format has two more quoted texts.
        let more = rest.split_once(" \"").map_or("", |(_, more)| more);
        let (referer, more) = tail_of_quoted(more).unwrap_or_default();
        let (user_agent, _) = quoted(more).unwrap_or_default();
        let t_ms = millis(time).ok_or("its time is not in the format 15/Nov/2026:19:00:00 +0000")?;
        Ok(Self { remote_address, remote_user, t_ms, request, status, referer, user_agent })
    }

    fn field(&self, field: Field) -> &'a str {
        let mut request = self.request.split(' ');
        match field {
            Field::RemoteAddress => self.remote_address,
            Field::RemoteUser => self.remote_user,
            Field::Method => request.next().unwrap_or_default(),
            // Without the query, because rules match the path.
            Field::Path => request.nth(1).and_then(|target| target.split('?').next()).unwrap_or_default(),
            Field::Status => self.status,
            Field::Referer => self.referer,
            Field::UserAgent => self.user_agent,
        }
    }
}

/// Splits off the quoted text at the start. A quote inside is written `\"` or `\x22`.
fn quoted(text: &str) -> Option<(&str, &str)> {
    tail_of_quoted(text.trim_start().strip_prefix('"')?)
}

fn tail_of_quoted(text: &str) -> Option<(&str, &str)> {
    let mut escaped = false;
    let end = text.char_indices().find_map(|(index, c)| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends.then_some(index)
    })?;
    Some((text.get(..end)?, text.get(end + 1..)?))
}

fn millis(time: &str) -> Option<u64> {
    let parsed = jiff::fmt::strtime::parse("%d/%b/%Y:%H:%M:%S %z", time).ok()?;
    u64::try_from(parsed.to_timestamp().ok()?.as_millisecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::AccessLogReader;

    fn log() -> AccessLogReader {
        let all = ["remote_address", "remote_user", "method", "path", "status", "referer", "user_agent"];
        AccessLogReader::new("web".into(), &all.map(String::from)).unwrap()
    }

    #[test]
    fn common_and_combined_log_lines_are_read() {
        for (line, t_ms, values) in [
            (
                r#"203.0.113.9 - ada [15/Nov/2026:19:00:00 +0000] "GET /a?b=c HTTP/1.1" 200 512 "http://e/" "curl/8""#,
                1_794_769_200_000,
                ["203.0.113.9", "ada", "GET", "/a", "200", "http://e/", "curl/8"],
            ),
            (
                r#"2001:db8::1 - - [15/Nov/2026:20:00:00 +0100] "POST /login HTTP/2.0" 429 0"#,
                1_794_769_200_000,
                ["2001:db8::1", "-", "POST", "/login", "429", "", ""],
            ),
            (
                r#"198.51.100.7 - - [01/Jan/1970:00:00:01 +0000] "\x16\x03" 400 0 "-" "a \"b\" c""#,
                1_000,
                ["198.51.100.7", "-", r"\x16\x03", "", "400", "-", r#"a \"b\" c"#],
            ),
        ] {
            let log = log();
            let read = log.read(line).unwrap();
            assert_eq!(read.t_ms, t_ms, "{line}");
            assert_eq!(read.entries.iter().map(|(_, value)| &**value).collect::<Vec<_>>(), values, "{line}");
        }
    }

    #[test]
    fn malformed_log_line_is_rejected_with_the_reason() {
        for (line, reason) in [
            ("word", "one word"),
            ("a - b", "before the time"),
            ("a - b [15/Nov/2026:19:00:00 +0000", "after the time"),
            ("a - b [15/Nov/2026:19:00:00 +0000] GET", "request in quotes"),
            (r#"a - b [15/Nov/2026:19:00:00 +0000] "GET"#, "request in quotes"),
            (r#"a - b [15/Nov/2026:19:00:00 +0000] "GET /""#, "status"),
            (r#"a - b [31/Feb/2026:19:00:00 +0000] "GET /" 200 1"#, "time"),
            (r#"a - b [15/Nov/1926:19:00:00 +0000] "GET /" 200 1"#, "time"),
        ] {
            let error = log().read(line).unwrap_err().to_string();
            assert!(error.contains(reason), "{line}: {error}");
        }
    }
}
