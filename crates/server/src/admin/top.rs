//! `GET /api/v1/top?by=denied|spent&limit=N`: the keys that are refused most, and those that spend most.

use super::reply::{ok, problem};
use crate::telemetry::{By, Top};
use axum::http::StatusCode;
use axum::response::Response;
use hivemind_core::{Clock, SystemClock};
use serde_json::{Value, json};

/// As many as fit on a screen.
const SHOWN: usize = 20;

/// What the query asks for, or what it should have.
fn asked(query: &str) -> Result<(By, usize), &'static str> {
    let (mut by, mut limit) = (By::Denied, SHOWN);
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=').unwrap_or((pair, "")) {
            ("by", text) => by = By::parse(text).ok_or("`by` is `denied` or `spent`.")?,
            ("limit", text) => {
                let number = text.parse().ok().filter(|number| (1..=1_000).contains(number));
                limit = number.ok_or("`limit` is a number from 1 to 1000.")?;
            }
            _ => return Err("The query has `by` and `limit`, and nothing else."),
        }
    }
    Ok((by, limit))
}

/// The first of both lists.
pub(super) fn both(top: &Top) -> Value {
    let of = |by| top.shown(by, SHOWN, SystemClock.now());
    json!({"denied": of(By::Denied), "spent": of(By::Spent)})
}

pub(super) fn answer(top: &Top, query: &str) -> Response {
    match asked(query) {
        Ok((by, limit)) => {
            let shown = top.shown(by, limit, SystemClock.now());
            ok(&shown)
        }
        Err(detail) => problem(StatusCode::BAD_REQUEST, "Not a question", detail),
    }
}

#[cfg(test)]
mod tests {
    use super::{By, asked};

    #[test]
    fn a_question_that_is_none_is_told_what_to_ask() {
        assert_eq!(asked(""), Ok((By::Denied, 20)));
        assert_eq!(asked("by=spent"), Ok((By::Spent, 20)));
        assert_eq!(asked("limit=1000&by=denied"), Ok((By::Denied, 1_000)));
        for wrong in ["by=", "by=all", "limit=0", "limit=1001", "limit=-1", "limit=x", "top", "by=spent&x=1"]
        {
            assert!(asked(wrong).is_err(), "{wrong}");
        }
    }
}
