//! HTTP/1.1 messages as they were on the wire: start line, headers in their order and case, body.

/// A request or a response.
#[derive(Clone, Debug, Default)]
pub(crate) struct Message {
    pub(crate) start: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
}

impl Message {
    /// Parses the text before the empty line.
    pub(crate) fn of_head(head: &str) -> Self {
        let mut lines = head.split("\r\n");
        let start = lines.next().unwrap_or_default().to_owned();
        Self { start, headers: lines.map(pair).collect(), ..Self::default() }
    }

    /// The status code of a response.
    pub(crate) fn code(&self) -> u16 {
        let code = self.start.split(' ').nth(1).and_then(|code| code.parse().ok());
        code.unwrap_or_else(|| panic!("no answer: {self:?}"))
    }

    /// The method of a request.
    pub(crate) fn method(&self) -> &str {
        self.start.split(' ').next().expect("a method")
    }

    /// The target of a request.
    pub(crate) fn target(&self) -> &str {
        self.start.split(' ').nth(1).expect("a target")
    }

    /// A header that occurs at most once, by its name in any case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let all = self.all(name);
        assert!(all.len() <= 1, "`{name}` is there {} times: {self:?}", all.len());
        all.first().copied()
    }

    /// All values of a header.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        let lines = self.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
        lines.map(|(_, value)| value.as_str()).collect()
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    /// The body as problem details (RFC 9457), with its content type checked.
    pub(crate) fn problem(&self) -> serde_json::Value {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{self:?}");
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn is_chunked(&self) -> bool {
        self.all("transfer-encoding").iter().any(|value| value.eq_ignore_ascii_case("chunked"))
    }

    pub(crate) fn length(&self) -> Option<usize> {
        self.header("content-length").map(|length| length.parse().expect("a length"))
    }

    /// Whether a response has no body, whatever its headers say.
    pub(crate) fn is_bodiless(&self) -> bool {
        matches!(self.code(), 100..=199 | 204 | 304)
    }
}

pub(crate) fn pair(line: &str) -> (String, String) {
    let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no header: {line:?}"));
    (name.to_owned(), value.trim().to_owned())
}
