//! Responses of the admin API.

use anyhow::{Context, bail};
use hivemind_tls::escape::escape_lines;
use http::StatusCode;
use serde_json::Value;

/// A response of the admin API.
#[derive(Debug)]
pub(in crate::cli) struct AdminResponse {
    pub(in crate::cli) status: StatusCode,
    pub(in crate::cli) text: String,
}

impl AdminResponse {
    pub(in crate::cli) fn is_good(&self) -> bool {
        self.status.is_success()
    }

    pub(in crate::cli) fn is_json(&self) -> bool {
        serde_json::from_str::<serde::de::IgnoredAny>(&self.text).is_ok()
    }

    /// The problem document of an error response, if it is JSON.
    pub(in crate::cli) fn problem(&self) -> Option<Value> {
        if self.is_good() { None } else { serde_json::from_str(&self.text).ok() }
    }

    /// The body of a successful response.
    ///
    /// # Errors
    /// The problem that the service reported, or a remedy if the response is not from a Hivemind.
    pub(in crate::cli) fn body(&self) -> anyhow::Result<Value> {
        let body = serde_json::from_str::<Value>(&self.text);
        if self.is_good() {
            return body
                .context("the response is not JSON; check that --url is the admin port of a Hivemind");
        }
        let status = self.status;
        let Ok(problem) = body else {
            bail!("the response is {status}; check that --url is the admin port of a Hivemind");
        };
        let text = |name: &str| escape_lines(problem.get(name).and_then(Value::as_str).unwrap_or_default());
        let remedy = match status {
            StatusCode::UNAUTHORIZED => " (give the token with --token-file)",
            StatusCode::NOT_FOUND if problem.get("title").is_none() => {
                " (an older service may not support this)"
            }
            _ => "",
        };
        let mut report = format!("{}: {}{remedy}", text("title"), text("detail"));
        for part in problem.as_object().into_iter().flat_map(|members| members.values()) {
            if let Some(errors) = part.get("errors").and_then(Value::as_str) {
                report.push('\n');
                report += &escape_lines(errors);
            }
        }
        bail!(report)
    }
}
