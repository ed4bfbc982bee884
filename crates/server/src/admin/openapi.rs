//! `GET /api/v1/openapi.json`: what all of this is, for programs. The file is checked against the routes and the answers
//! by tests/api.

use super::Admin;
use axum::Router;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

const DESCRIPTION: &str = include_str!("openapi.json");

pub(super) fn routes() -> Router<Admin> {
    Router::new().route("/api/v1/openapi.json", get(description))
}

async fn description() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], DESCRIPTION).into_response()
}
