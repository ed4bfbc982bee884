//! Request bodies: collected before handlers run, with a limit per body and for all bodies together.

use super::bounds::{BodyError, PASSED_OVER};
use super::{Admin, simulate};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http_body::Body as _;

/// The limit of a decision request, and of every request without its own limit.
const LARGEST: usize = 1 << 20;

pub(super) async fn gathered(State(admin): State<Admin>, request: Request, next: Next) -> Response {
    // A simulation has its own limits.
    if request.body().is_end_stream() || request.uri().path() == simulate::PATH {
        return next.run(request).await;
    }
    // A body whose declared length is too large need not be sent.
    let is_too_large = request.body().size_hint().lower() > (LARGEST * PASSED_OVER) as u64;
    let (parts, body) = request.into_parts();
    let gathered =
        if is_too_large { Err(BodyError::TooLarge) } else { admin.bounds.gather(body, LARGEST).await };
    match gathered {
        Ok((bytes, place)) => {
            let response = next.run(Request::from_parts(parts, Body::from(bytes))).await;
            drop(place);
            response
        }
        Err(why) => why.answer(&format!("A body may have at most {LARGEST} bytes; send less at once.")),
    }
}
