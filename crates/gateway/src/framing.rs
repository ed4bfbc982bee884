//! Message framing: the length of a body must be unambiguous, or the message is rejected.

use super::failure::Failure;
use super::hop_by_hop;
use http::StatusCode;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderValue, TRANSFER_ENCODING};

/// Whether the only transfer coding is `chunked`. Any other coding ends at this hop together with the chunks, and the
/// upstream would not know about it.
pub(super) fn is_chunked_alone(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked = |value: &HeaderValue| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
    codings.next().is_none_or(is_chunked) && codings.next().is_none()
}

/// Converts the head of an upstream's response for the client. A chunked body has no `Content-Length`, which another
/// server could read instead of the chunks; a response without a body has none either (RFC 9110, 8.6).
pub(super) fn relay(status: StatusCode, headers: &mut HeaderMap) -> Result<(), Failure> {
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let is_number = |length: &HeaderValue| length.as_bytes().iter().all(u8::is_ascii_digit);
    if lengths.next().is_some_and(|length| !is_number(length)) || lengths.next().is_some() {
        return Err(Failure::UpstreamFailed);
    }
    if status.is_informational() || status == StatusCode::NO_CONTENT {
        headers.remove(CONTENT_LENGTH);
    }
    if headers.contains_key(TRANSFER_ENCODING) {
        if !is_chunked_alone(headers) {
            return Err(Failure::UpstreamFailed);
        }
        headers.remove(CONTENT_LENGTH);
    }
    hop_by_hop::remove(headers);
    Ok(())
}

/// Normalizes a length with leading zeros: other servers may reject it, or read it as octal.
pub(super) fn normalize_content_length(headers: &mut HeaderMap) {
    if let Some(length) = headers.get(CONTENT_LENGTH)
        && length.len() > 1
        && length.as_bytes().starts_with(b"0")
    {
        let number = length.to_str().ok().and_then(|length| length.parse::<u64>().ok()).unwrap_or_default();
        headers.insert(CONTENT_LENGTH, HeaderValue::from(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_length_is_forwarded_as_a_plain_number() {
        for (written, forwarded) in [("5", "5"), ("0", "0"), ("0005", "5"), ("000", "0")] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static(written));
            normalize_content_length(&mut headers);
            assert_eq!(headers.get(CONTENT_LENGTH).unwrap(), forwarded);
        }
    }

    // Fails when a length is kept with 204, or when a list of lengths is accepted.
    #[test]
    fn response_is_chunked_or_has_one_length() {
        let with = |status: StatusCode, lines: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.append(*name, HeaderValue::from_static(value));
            }
            relay(status, &mut headers).map(|()| headers.contains_key(CONTENT_LENGTH))
        };
        let body = |lines: &[(&'static str, &'static str)]| with(StatusCode::OK, lines);
        let (chunked, length) = (("transfer-encoding", "chunked"), ("content-length", "3"));
        assert_eq!(body(&[length]), Ok(true));
        assert_eq!(body(&[chunked]), Ok(false));
        assert_eq!(body(&[chunked, length]), Ok(false));
        assert_eq!(with(StatusCode::NO_CONTENT, &[length]), Ok(false));
        assert_eq!(with(StatusCode::NOT_MODIFIED, &[length]), Ok(true));
        for wrong in [
            &[("transfer-encoding", "gzip, chunked")][..],
            &[("transfer-encoding", "gzip")],
            &[chunked; 2],
            &[length; 2],
            &[("content-length", "3, 3")],
            &[("content-length", "+3")],
        ] {
            assert_eq!(body(wrong), Err(Failure::UpstreamFailed), "{wrong:?}");
        }
    }
}
