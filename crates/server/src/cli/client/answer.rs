//! What the service answered.

use anyhow::{Context, bail};
use hivemind_tls::harmless::harmless_lines;
use http::StatusCode;
use serde_json::Value;

/// What the service answered.
#[derive(Debug)]
pub(in crate::cli) struct Answer {
    pub(in crate::cli) status: StatusCode,
    pub(in crate::cli) text: String,
}

impl Answer {
    pub(in crate::cli) fn is_good(&self) -> bool {
        self.status.is_success()
    }

    pub(in crate::cli) fn is_json(&self) -> bool {
        serde_json::from_str::<serde::de::IgnoredAny>(&self.text).is_ok()
    }

    /// What it said instead of an answer, where that is JSON.
    pub(in crate::cli) fn problem(&self) -> Option<Value> {
        if self.is_good() { None } else { serde_json::from_str(&self.text).ok() }
    }

    /// Its body.
    ///
    /// # Errors
    /// Why there is none, and what to do about it.
    pub(in crate::cli) fn body(&self) -> anyhow::Result<Value> {
        let body = serde_json::from_str::<Value>(&self.text);
        if self.is_good() {
            return body
                .context("the answer is no JSON: is this the admin port of a Hivemind? Give another --url");
        }
        let status = self.status;
        let Ok(problem) = body else {
            bail!("it answered with {status}: is this the admin port of a Hivemind? Give another --url");
        };
        let text = |name: &str| harmless_lines(problem.get(name).and_then(Value::as_str).unwrap_or_default());
        let remedy = match status {
            StatusCode::UNAUTHORIZED => " (give the token with --token-file)",
            StatusCode::NOT_FOUND if problem.get("title").is_none() => {
                " (an older service may not know this)"
            }
            _ => "",
        };
        let mut told = format!("{}: {}{remedy}", text("title"), text("detail"));
        for part in problem.as_object().into_iter().flat_map(|members| members.values()) {
            if let Some(errors) = part.get("errors").and_then(Value::as_str) {
                told.push('\n');
                told += &harmless_lines(errors);
            }
        }
        bail!(told)
    }
}
