//! `GET /api/v1/blocks?limit=N&cursor=C`: the keys that are blocked.

use super::Admin;
use super::reply::{ok, problem};
use crate::blocks::Block;
use axum::Router;
use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hivemind_core::{Clock, SystemClock};
use serde_json::{Value, json};

/// A page, where nobody says how long it is to be.
const SHOWN: usize = 100;
const MOST_SHOWN: usize = 1_000;

pub(super) fn routes() -> Router<Admin> {
    Router::new().route("/api/v1/blocks", get(list))
}

/// A page of them, in the order of their names.
async fn list(State(admin): State<Admin>, RawQuery(query): RawQuery) -> Response {
    let (limit, after) = match asked(query.as_deref().unwrap_or_default()) {
        Ok(asked) => asked,
        Err(detail) => return problem(StatusCode::BAD_REQUEST, "Not a question", detail),
    };
    let (blocks, is_more) = admin.storage.blocks().list(&after, limit, SystemClock.now());
    let last = blocks.last().filter(|_| is_more).map(|block| URL_SAFE_NO_PAD.encode(block.name.text()));
    ok(&json!({"items": blocks.iter().map(shown).collect::<Vec<_>>(), "next": last}))
}

fn shown(block: &Block) -> Value {
    json!({
        "domain": block.name.domain(),
        "entries": block.name.shown_entries(),
        "until_ms": block.until.as_nanos() / 1_000_000,
        "by": block.by,
    })
}

/// How many, and after which.
fn asked(query: &str) -> Result<(usize, Vec<u8>), &'static str> {
    let (mut limit, mut after) = (SHOWN, Vec::new());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=').unwrap_or((pair, "")) {
            ("limit", text) => {
                let number = text.parse().ok().filter(|number| (1..=MOST_SHOWN).contains(number));
                limit = number.ok_or("`limit` is a number from 1 to 1000.")?;
            }
            ("cursor", text) => {
                after = URL_SAFE_NO_PAD
                    .decode(text)
                    .map_err(|_| "`cursor` is what `next` of the page before said.")?;
            }
            _ => return Err("The query has `limit` and `cursor`, and nothing else."),
        }
    }
    Ok((limit, after))
}

#[cfg(test)]
mod tests {
    use super::asked;

    #[test]
    fn a_question_that_is_none_is_told_what_to_ask() {
        assert_eq!(asked(""), Ok((100, Vec::new())));
        assert_eq!(asked("cursor=YWI&limit=1000"), Ok((1_000, b"ab".to_vec())));
        for wrong in ["limit=0", "limit=1001", "limit=x", "cursor=%", "cursor=a", "x=1", "limit"] {
            assert!(asked(wrong).is_err(), "{wrong}");
        }
    }
}
