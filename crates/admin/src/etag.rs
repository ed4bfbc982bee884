//! Entity tags: each GET of the API has a strong `ETag` over its body, and a matching `If-None-Match` returns 304.
//! Event streams have none.

use super::API;
use super::reply::problem;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Longer than any response: pages have at most a thousand items.
const LONGEST_ANSWER: usize = 64 << 20;

pub(super) async fn tagged(request: Request, next: Next) -> Response {
    let is_head = request.method() == Method::HEAD;
    if !request.uri().path().starts_with(API) || !(is_head || request.method() == Method::GET) {
        return next.run(request).await;
    }
    let known = request.headers().get_all(header::IF_NONE_MATCH).iter().cloned().collect::<Vec<_>>();
    let mut response = next.run(request).await;
    // A handler that forbids storing sets its own header.
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache"));
    if !is_whole(&response) {
        // A HEAD request does not open a stream.
        return if is_head { response.map(|_| Body::empty()) } else { response };
    }
    let (mut head, body) = response.into_parts();
    let Ok(body) = to_bytes(body, LONGEST_ANSWER).await else {
        return problem(
            StatusCode::INTERNAL_SERVER_ERROR,
            "Internal error",
            "The response is too long; request fewer items.",
        );
    };
    if head.status == StatusCode::OK {
        let tag = tag(&body);
        let is_known = known.iter().any(|list| names(list, &tag));
        head.headers.insert(header::ETAG, tag);
        if is_known {
            head.status = StatusCode::NOT_MODIFIED;
            forget_body(&mut head.headers);
            return Response::from_parts(head, Body::empty());
        }
    }
    if is_head {
        head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        return Response::from_parts(head, Body::empty());
    }
    Response::from_parts(head, Body::from(body))
}

/// Whether the response is complete JSON, and not a stream.
fn is_whole(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    kind.starts_with(b"application/json") || kind.starts_with(b"application/problem+json")
}

fn forget_body(headers: &mut HeaderMap) {
    headers.remove(header::CONTENT_TYPE);
    headers.remove(header::CONTENT_LENGTH);
}

/// The tag of a body.
pub(super) fn tag(body: &[u8]) -> HeaderValue {
    let digest = Sha256::digest(body);
    let mut tag = String::from("\"");
    for byte in digest.iter().take(16) {
        let _ = write!(tag, "{byte:02x}"); // Writing to a string cannot fail.
    }
    tag.push('"');
    HeaderValue::from_str(&tag).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

/// Whether a list of tags contains this one; weak comparison is enough for GET.
fn names(list: &HeaderValue, tag: &HeaderValue) -> bool {
    let mut tags = list.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    tags.any(|known| known == b"*" || known.strip_prefix(b"W/").unwrap_or(known) == tag.as_bytes())
}

/// Whether the client has this version already.
pub(super) fn is_known(asked: &HeaderMap, tag: &HeaderValue) -> bool {
    asked.get_all(header::IF_NONE_MATCH).iter().any(|list| names(list, tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn etag_matches_in_a_list_weak_or_star() {
        let own = tag(b"body");
        let tag = own.to_str().unwrap();
        for (list, expected) in [
            (tag.to_owned(), true),
            (format!("\"x\", W/{tag}"), true),
            ("*".to_owned(), true),
            ("\"x\"".to_owned(), false),
            (tag.trim_matches('"').to_owned(), false),
            (String::new(), false),
        ] {
            assert_eq!(names(&HeaderValue::from_str(&list).unwrap(), &own), expected, "{list}");
        }
        assert_ne!(own, super::tag(b"bodY"));
    }
}
