//! `GET /api/v1/openapi.json`: the `OpenAPI` description. tests/api checks it against the routes and responses.

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
