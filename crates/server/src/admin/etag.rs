//! Answers that whoever asks again may have already: each GET of the API has a strong `ETag` over its body, and who sends
//! it back is told that nothing changed. A stream of events has none.

use super::API;
use super::reply::problem;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// No answer of ours is longer: pages have a thousand items at most.
const LONGEST_ANSWER: usize = 64 << 20;

pub(super) async fn tagged(request: Request, next: Next) -> Response {
    let is_head = request.method() == Method::HEAD;
    if !request.uri().path().starts_with(API) || !(is_head || request.method() == Method::GET) {
        return next.run(request).await;
    }
    let known = request.headers().get_all(header::IF_NONE_MATCH).iter().cloned().collect::<Vec<_>>();
    let mut response = next.run(request).await;
    // What must not be kept at all says so itself.
    response.headers_mut().entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache"));
    if !is_whole(&response) {
        // A HEAD has no stream.
        return if is_head { response.map(|_| Body::empty()) } else { response };
    }
    let (mut head, body) = response.into_parts();
    let Ok(body) = to_bytes(body, LONGEST_ANSWER).await else {
        return problem(
            StatusCode::INTERNAL_SERVER_ERROR,
            "Something is wrong here",
            "The answer is too long; ask for less of it.",
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

/// Whether it is JSON, which is there at once.
fn is_whole(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    kind.starts_with(b"application/json") || kind.starts_with(b"application/problem+json")
}

fn forget_body(headers: &mut HeaderMap) {
    headers.remove(header::CONTENT_TYPE);
    headers.remove(header::CONTENT_LENGTH);
}

/// A name for exactly this body.
pub(super) fn tag(body: &[u8]) -> HeaderValue {
    let digest = Sha256::digest(body);
    let mut tag = String::from("\"");
    for byte in digest.iter().take(16) {
        let _ = write!(tag, "{byte:02x}"); // A string takes all that is written.
    }
    tag.push('"');
    HeaderValue::from_str(&tag).unwrap_or_else(|_| HeaderValue::from_static("\"\""))
}

/// Whether a list of tags has this one; for GET, a weak one is as good.
fn names(list: &HeaderValue, tag: &HeaderValue) -> bool {
    let mut tags = list.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    tags.any(|known| known == b"*" || known.strip_prefix(b"W/").unwrap_or(known) == tag.as_bytes())
}

/// Whether whoever asks has it already.
pub(super) fn is_known(asked: &HeaderMap, tag: &HeaderValue) -> bool {
    asked.get_all(header::IF_NONE_MATCH).iter().any(|list| names(list, tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_known_in_a_list_as_a_weak_one_and_by_a_star() {
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
