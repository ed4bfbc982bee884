//! Requests to the admin API.

use http::Method;
use serde_json::Value;
use std::fmt::Write;

/// A request to the admin API.
#[derive(Debug)]
pub(in crate::cli) struct AdminRequest {
    pub(in crate::cli) method: Method,
    /// The path with its query.
    pub(in crate::cli) target: String,
    pub(in crate::cli) body: Option<Value>,
    pub(in crate::cli) accept: &'static str,
}

const JSON: &str = "application/json";

impl AdminRequest {
    pub(in crate::cli) fn get(path: &str) -> Self {
        Self { method: Method::GET, target: path.to_owned(), body: None, accept: JSON }
    }

    pub(in crate::cli) fn post(path: &str, body: Option<Value>) -> Self {
        Self { method: Method::POST, target: path.to_owned(), body, accept: JSON }
    }

    /// The same request with a plain text response.
    pub(in crate::cli) fn in_words(self) -> Self {
        Self { accept: "text/plain", ..self }
    }

    /// Adds a query parameter, if there is a value.
    pub(in crate::cli) fn with(mut self, name: &str, value: Option<&str>) -> Self {
        if let Some(value) = value {
            self.target.push(if self.target.contains('?') { '&' } else { '?' });
            self.target += &[name, "=", &encoded(value)].concat();
        }
        self
    }
}

/// Percent-encodes text for a path or a query.
pub(in crate::cli) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}"); // Writing to a string cannot fail.
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_text_is_encoded_as_one_query_value() {
        let question = AdminRequest::get("/api/v1/rules").with("domain", None).with("q", Some("a&b=ü ?#"));
        assert_eq!(
            question.with("limit", Some("5")).target,
            "/api/v1/rules?q=a%26b%3D%C3%BC%20%3F%23&limit=5"
        );
    }
}
