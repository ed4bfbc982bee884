//! `POST /api/v1/reload`: rules, configuration and certificates are loaded anew, and whoever asked is told what became of it.

use crate::reload::Outcome;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

/// 200 and what was loaded; or problem details with everything that is wrong.
pub(super) fn answer(outcomes: Vec<(&'static str, Outcome)>) -> Response {
    let mut members = Map::new();
    let mut wrong: Vec<String> = Vec::new();
    for (what, outcome) in outcomes {
        let member = match outcome {
            Ok(notes) => json!({"loaded": true, "notes": notes}),
            Err(problems) => {
                wrong.push(what.to_owned());
                json!({"loaded": false, "errors": problems})
            }
        };
        members.insert(what.to_owned(), member);
    }
    let (status, kind) = if wrong.is_empty() {
        (StatusCode::OK, "application/json")
    } else {
        members.insert("type".into(), "about:blank".into());
        members.insert("title".into(), "Not everything could be loaded".into());
        members.insert("status".into(), StatusCode::UNPROCESSABLE_ENTITY.as_u16().into());
        let detail = format!("Refused: {}. What is refused stays as it was before.", wrong.join(", "));
        members.insert("detail".into(), detail.into());
        (StatusCode::UNPROCESSABLE_ENTITY, "application/problem+json")
    };
    (status, [(header::CONTENT_TYPE, kind)], Value::Object(members).to_string() + "\n").into_response()
}
