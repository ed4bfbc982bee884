//! Reasons to reject a request, and their responses.

use crate::reply::problem;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AccessRefusal {
    Unknown,
    NotAllowed,
    Outside,
    AnotherPage,
    NotOurName,
}

impl AccessRefusal {
    pub(super) const fn response_parts(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::Unknown => (
                StatusCode::UNAUTHORIZED,
                "Not authenticated",
                "Send the admin token as `Authorization: Bearer TOKEN`, or an API key as `x-api-key`.",
            ),
            Self::NotAllowed => (
                StatusCode::FORBIDDEN,
                "Not permitted for this key",
                "This API key is for decision requests only; send the admin token, or a key with `@admin`.",
            ),
            Self::Outside => (
                StatusCode::FORBIDDEN,
                "Not permitted from the network",
                "Without a token, only this machine has access; set `security.admin.token_file`.",
            ),
            Self::AnotherPage => (
                StatusCode::FORBIDDEN,
                "Cross-site request",
                "Without a token, a browser may send this only for this port's own pages: open the dashboard here, or set \
                 `security.admin.token_file`.",
            ),
            Self::NotOurName => (
                StatusCode::MISDIRECTED_REQUEST,
                "Unknown host name",
                "Without a token, this port accepts only its address or `localhost` as host name; for other names, set \
                 `security.admin.token_file`.",
            ),
        }
    }

    pub(super) fn answer(self) -> Response {
        let (status, title, detail) = self.response_parts();
        let mut response = problem(status, title, detail);
        if self == Self::Unknown {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
