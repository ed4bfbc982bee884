//! `GET /api/v1/top?by=denied|spent&limit=N`: the keys with the most refusals, or with the highest spending.

use super::Admin;
use super::page_query::PageQuery;
use super::query::Query;
use super::reply::{no_question, ok};
use axum::response::Response;
use hivemind_core::{Clock, SystemClock};
use hivemind_telemetry::RankBy;
use serde_json::{Value, json};

/// Fits on one screen.
const SHOWN: usize = 20;

const NAMES: [&str; 2] = ["by", PageQuery::NAMES[0]];

/// Reads the query, or returns what to send instead.
fn asked(query: Option<&str>) -> Result<(RankBy, usize), String> {
    let query = Query::read(query, &NAMES)?;
    let by = match query.get("by") {
        None => RankBy::Denied,
        Some(text) => RankBy::parse(text).ok_or("`by` must be `denied` or `spent`.")?,
    };
    Ok((by, PageQuery::limit_of(&query, SHOWN)?))
}

/// The heads of both lists.
pub(super) fn both(admin: &Admin) -> Value {
    let of = |by| shown(admin, by, SHOWN);
    json!({"denied": of(RankBy::Denied), "spent": of(RankBy::Spent)})
}

fn shown(admin: &Admin, by: RankBy, limit: usize) -> Value {
    let service = &admin.service.0;
    service.stats().top.shown(by, limit, service.rules_number(), SystemClock.now())
}

pub(super) fn answer(admin: &Admin, query: Option<&str>) -> Response {
    match asked(query) {
        Ok((by, limit)) => ok(&shown(admin, by, limit)),
        Err(detail) => no_question(&detail),
    }
}

#[cfg(test)]
mod tests {
    use super::{RankBy, asked};

    #[test]
    fn top_query_is_validated() {
        assert_eq!(asked(None), Ok((RankBy::Denied, 20)));
        assert_eq!(asked(Some("by=spent")), Ok((RankBy::Spent, 20)));
        assert_eq!(asked(Some("limit=1000&by=denied")), Ok((RankBy::Denied, 1_000)));
        for wrong in [
            "by=",
            "by=all",
            "limit=0",
            "limit=1001",
            "limit=-1",
            "limit=x",
            "top",
            "by=spent&x=1",
            "limit=1&limit=2",
        ] {
            assert!(asked(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
