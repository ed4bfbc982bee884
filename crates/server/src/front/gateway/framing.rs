//! Where a body ends, as its head says it: in one way only, or nobody behind is told of it.

use super::failure::Failure;
use super::hop_by_hop;
use http::StatusCode;
use http::header::{CONTENT_LENGTH, HeaderMap, HeaderValue, TRANSFER_ENCODING};

/// Whether a body is only cut into chunks. What else it may be coded in ends at the next hop as the chunks
/// do, and the upstream could not know of it any more.
pub(super) fn is_chunked_alone(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked = |value: &HeaderValue| value.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
    codings.next().is_none_or(is_chunked) && codings.next().is_none()
}

/// Makes the head of an upstream's answer one for the client. Where the body came in chunks its length is
/// what they say, and another one beside would be read by somebody behind; where there is no body, there is none
/// of any length (RFC 9110, 8.6).
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

/// A length with zeros in front of it is one to us, and may be none to another, or one in octal.
pub(super) fn write_length_anew(headers: &mut HeaderMap) {
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
    fn a_length_is_forwarded_as_the_number_that_it_is() {
        for (written, forwarded) in [("5", "5"), ("0", "0"), ("0005", "5"), ("000", "0")] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_LENGTH, HeaderValue::from_static(written));
            write_length_anew(&mut headers);
            assert_eq!(headers.get(CONTENT_LENGTH).unwrap(), forwarded);
        }
    }

    // Seen failing on: a length that is kept with 204, and one that is a list.
    #[test]
    fn an_answer_is_in_chunks_or_has_a_length_and_nothing_else() {
        let with = |status: StatusCode, lines: &[(&'static str, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                headers.append(*name, HeaderValue::from_static(value));
            }
            relay(status, &mut headers).map(|()| headers.contains_key(CONTENT_LENGTH))
        };
        let relayed = |lines: &[(&'static str, &'static str)]| with(StatusCode::OK, lines);
        let (chunked, length) = (("transfer-encoding", "chunked"), ("content-length", "3"));
        assert_eq!(relayed(&[length]), Ok(true));
        assert_eq!(relayed(&[chunked]), Ok(false));
        assert_eq!(relayed(&[chunked, length]), Ok(false));
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
            assert_eq!(relayed(wrong), Err(Failure::UpstreamFailed), "{wrong:?}");
        }
    }
}
