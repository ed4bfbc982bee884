//! Why somebody is not let in, as it is told.

use crate::admin::reply::problem;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Unknown,
    NotAllowed,
    Outside,
    AnotherPage,
    NotOurName,
}

impl Refusal {
    pub(super) const fn told(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::Unknown => (
                StatusCode::UNAUTHORIZED,
                "Nobody knows who asks",
                "Send the admin token as `Authorization: Bearer TOKEN`, or an API key as `x-api-key`.",
            ),
            Self::NotAllowed => (
                StatusCode::FORBIDDEN,
                "Not with this key",
                "This API key is for calls; send the admin token, or a key with `@admin`.",
            ),
            Self::Outside => (
                StatusCode::FORBIDDEN,
                "Not from outside",
                "Where no token is set, this is for those on this machine; set `security.admin.token_file`.",
            ),
            Self::AnotherPage => (
                StatusCode::FORBIDDEN,
                "Not for the page of another site",
                "Where no token is set, a browser asks this only for a page of this port's own: open the dashboard here, \
                 or set `security.admin.token_file`.",
            ),
            Self::NotOurName => (
                StatusCode::MISDIRECTED_REQUEST,
                "Not by this name",
                "Where no token is set, this port is asked for by its address or as `localhost`; for other names, set \
                 `security.admin.token_file`.",
            ),
        }
    }

    pub(super) fn answer(self) -> Response {
        let (status, title, detail) = self.told();
        let mut response = problem(status, title, detail);
        if self == Self::Unknown {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
