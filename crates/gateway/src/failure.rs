//! Error responses of the gateway: problem documents (RFC 9457) that say what to do, and reveal nothing about
//! upstreams. All are constants, so a flood of failures costs no formatting.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// Its host or path is ambiguous.
    BadTarget,
    /// Its method is ambiguous: an application may read it as another one.
    BadMethod,
    /// It is not valid HTTP.
    Unreadable,
    NoService,
    /// Its body did not arrive in time.
    ClientTooSlow,
    BodyTooLarge,
    TargetTooLong,
    HeadTooLarge,
    OverLimit,
    NotSupported,
    UpstreamFailed,
    UpstreamBusy,
    UpstreamTooSlow,
}

macro_rules! problem {
    ($status:literal, $title:literal, $detail:literal) => {
        concat!(
            r#"{"type":"about:blank","title":""#,
            $title,
            r#"","status":"#,
            stringify!($status),
            r#","detail":""#,
            $detail,
            r#""}"#
        )
    };
}

impl Failure {
    pub(super) const fn status(self) -> StatusCode {
        match self {
            Self::BadTarget | Self::BadMethod | Self::Unreadable => StatusCode::BAD_REQUEST,
            Self::NoService => StatusCode::NOT_FOUND,
            Self::ClientTooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TargetTooLong => StatusCode::URI_TOO_LONG,
            Self::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::OverLimit => StatusCode::TOO_MANY_REQUESTS,
            Self::NotSupported => StatusCode::NOT_IMPLEMENTED,
            Self::UpstreamFailed => StatusCode::BAD_GATEWAY,
            Self::UpstreamBusy => StatusCode::SERVICE_UNAVAILABLE,
            Self::UpstreamTooSlow => StatusCode::GATEWAY_TIMEOUT,
        }
    }

    const fn body(self) -> &'static str {
        match self {
            Self::BadTarget => problem!(
                400,
                "Bad Request",
                "The host or the path of the request can be read in several ways. Send one Host, and a path without dot segments."
            ),
            Self::BadMethod => problem!(
                400,
                "Bad Request",
                "The method of the request can be read in several ways. Write it in capital letters."
            ),
            Self::Unreadable => problem!(400, "Bad Request", "The request is not valid HTTP."),
            Self::NoService => problem!(404, "Not Found", "No service is configured for this host and path."),
            Self::ClientTooSlow => {
                problem!(408, "Request Timeout", "The body of the request did not arrive in time.")
            }
            Self::BodyTooLarge => {
                problem!(413, "Content Too Large", "The body of the request is larger than allowed.")
            }
            Self::TargetTooLong => {
                problem!(414, "URI Too Long", "The target of the request is longer than allowed.")
            }
            Self::HeadTooLarge => problem!(
                431,
                "Request Header Fields Too Large",
                "The header fields of the request are too large or too many."
            ),
            Self::OverLimit => problem!(429, "Too Many Requests", "Rate limit exceeded. Retry later."),
            Self::NotSupported => {
                problem!(501, "Not Implemented", "This method or transfer coding is not supported.")
            }
            Self::UpstreamFailed => problem!(
                502,
                "Bad Gateway",
                "The service behind the gateway could not be reached, or sent an invalid response."
            ),
            Self::UpstreamBusy => problem!(
                503,
                "Service Unavailable",
                "The service behind the gateway has too many requests in progress. Try again."
            ),
            Self::UpstreamTooSlow => {
                problem!(504, "Gateway Timeout", "The service behind the gateway did not respond in time.")
            }
        }
    }

    /// Whether the connection may continue after the unread rest of the request: not if the request is ambiguous, so
    /// that its rest could be parsed as another one, and not if the client is too slow.
    pub(super) const fn keeps_connection(self) -> bool {
        matches!(
            self,
            Self::NoService
                | Self::BodyTooLarge
                | Self::OverLimit
                | Self::UpstreamFailed
                | Self::UpstreamBusy
                | Self::UpstreamTooSlow
        )
    }

    /// The response.
    pub(super) fn response(self) -> Response<Bytes> {
        let body = self.body();
        let mut headers = HeaderMap::with_capacity(8);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        if matches!(self, Self::UpstreamBusy) {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        let mut response = Response::new(Bytes::from_static(body.as_bytes()));
        *response.status_mut() = self.status();
        *response.headers_mut() = headers;
        response
    }

    /// The response as bytes, for use below the HTTP library.
    pub(super) fn bytes(self) -> Vec<u8> {
        let (status, body) = (self.status(), self.body());
        format!(
            "HTTP/1.1 {} {}\r\ncontent-type: application/problem+json\r\ncache-control: no-store\r\n\
             content-length: {}\r\nconnection: close\r\n\r\n{body}",
            status.as_u16(),
            status.canonical_reason().unwrap_or_default(),
            body.len(),
        )
        .into_bytes()
    }

    /// The failure that hyper detected, by the status of its response.
    pub(super) fn of_unread(status: &[u8]) -> Option<Self> {
        match status {
            b"400" => Some(Self::Unreadable),
            b"414" => Some(Self::TargetTooLong),
            b"431" => Some(Self::HeadTooLarge),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Failure;

    const ALL: [Failure; 13] = [
        Failure::BadTarget,
        Failure::BadMethod,
        Failure::Unreadable,
        Failure::NoService,
        Failure::ClientTooSlow,
        Failure::BodyTooLarge,
        Failure::TargetTooLong,
        Failure::HeadTooLarge,
        Failure::OverLimit,
        Failure::NotSupported,
        Failure::UpstreamFailed,
        Failure::UpstreamBusy,
        Failure::UpstreamTooSlow,
    ];

    #[test]
    fn failure_body_status_equals_response_status() {
        for failure in ALL {
            let answer = failure.response();
            let problem: serde_json::Value = serde_json::from_slice(answer.body()).unwrap();
            assert_eq!(problem["status"], answer.status().as_u16());
            assert!(problem["detail"].as_str().unwrap().ends_with('.'), "{problem}");
            let wire = String::from_utf8(failure.bytes()).unwrap();
            assert!(wire.starts_with(&format!("HTTP/1.1 {}", answer.status().as_u16())), "{wire}");
        }
    }
}
