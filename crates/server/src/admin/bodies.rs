//! Bodies are gathered before anybody reads them: so many bytes each, and so many of all together.

use super::bounds::{NotTaken, PASSED_OVER};
use super::{Admin, simulate};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http_body::Body as _;

/// No request for a decision is longer, nor any other that has no bound of its own.
const LARGEST: usize = 1 << 20;

pub(super) async fn gathered(State(admin): State<Admin>, request: Request, next: Next) -> Response {
    // A simulation has a bound, and places, of its own.
    if request.body().is_end_stream() || request.uri().path() == simulate::PATH {
        return next.run(request).await;
    }
    // Who says beforehand how much it is need not send it.
    let is_too_large = request.body().size_hint().lower() > (LARGEST * PASSED_OVER) as u64;
    let (parts, body) = request.into_parts();
    let gathered =
        if is_too_large { Err(NotTaken::TooLarge) } else { admin.bounds.gather(body, LARGEST).await };
    match gathered {
        Ok((bytes, place)) => {
            let response = next.run(Request::from_parts(parts, Body::from(bytes))).await;
            drop(place);
            response
        }
        Err(why) => why.answer(&format!("A body has at most {LARGEST} bytes; send less at once.")),
    }
}
