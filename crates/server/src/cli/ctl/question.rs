//! What is asked of the API.

use http::Method;
use serde_json::Value;
use std::fmt::Write;

/// What is asked of the API.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) method: Method,
    /// The path, and the query after it.
    pub(super) target: String,
    pub(super) body: Option<Value>,
}

impl Question {
    pub(super) fn get(path: &str) -> Self {
        Self { method: Method::GET, target: path.to_owned(), body: None }
    }

    pub(super) fn post(path: &str, body: Option<Value>) -> Self {
        Self { method: Method::POST, target: path.to_owned(), body }
    }

    /// The same with one more name in its query, where there is a value.
    pub(super) fn with(mut self, name: &str, value: Option<&str>) -> Self {
        if let Some(value) = value {
            self.target.push(if self.target.contains('?') { '&' } else { '?' });
            self.target += &[name, "=", &encoded(value)].concat();
        }
        self
    }
}

/// As it may stand in a path or a query.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}"); // A string takes all that is written.
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_is_sought_is_one_value_of_the_query() {
        let question = Question::get("/api/v1/rules").with("domain", None).with("q", Some("a&b=ü ?#"));
        assert_eq!(
            question.with("limit", Some("5")).target,
            "/api/v1/rules?q=a%26b%3D%C3%BC%20%3F%23&limit=5"
        );
    }
}
