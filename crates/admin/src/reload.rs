//! `POST /api/v1/reload`: reloads rules, configuration, certificates and keys, and returns the results.

mod request;

use request::ReloadOutcome;
pub use request::{ReloadRequest, Reloads};

use super::reply::{ok, problem_with};
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::{Map, Value, json};

/// 200 with what was loaded, or a problem with everything that is wrong.
pub(super) fn answer(outcomes: Vec<(&'static str, ReloadOutcome)>) -> Response {
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
    if wrong.is_empty() {
        return ok(&Value::Object(members));
    }
    let detail = format!("Rejected: {}. The previous versions stay active.", wrong.join(", "));
    problem_with(StatusCode::UNPROCESSABLE_ENTITY, "Reload failed", &detail, members)
}
