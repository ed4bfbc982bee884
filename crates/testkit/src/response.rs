//! Responses in a short form: `OK 15/DAY, 14 left`, `OVER 15/DAY`, `none`, `unlimited`.

use crate::proto::envoy::service::ratelimit::v3::RateLimitResponse;
use crate::proto::envoy::service::ratelimit::v3::rate_limit_response::{
    Code, DescriptorStatus, rate_limit::Unit,
};

/// The short form of one status. Fails if its fields contradict each other.
pub fn status_summary(status: &DescriptorStatus) -> String {
    let Some(limit) = &status.current_limit else {
        assert_eq!((status.code(), status.duration_until_reset), (Code::Ok, None), "{status:?}");
        return match status.limit_remaining {
            0 => "none".to_owned(),
            u32::MAX => "unlimited".to_owned(),
            other => panic!("{other} left of no limit"),
        };
    };
    let reset = status.duration_until_reset.expect("a limit has a reset time");
    assert_eq!(reset.nanos, 0, "whole seconds");
    // Only a full bucket has nothing to wait for.
    let full = status.limit_remaining >= limit.requests_per_unit && status.code() == Code::Ok;
    assert!(reset.seconds >= 1 || full, "{reset:?} is rounded down");
    let name = if limit.name.is_empty() { String::new() } else { format!(" `{}`", limit.name) };
    let unit = match limit.unit() {
        Unit::Unknown => "?",
        unit => unit.as_str_name(),
    };
    let limit = format!("{}/{unit}{name}", limit.requests_per_unit);
    match status.code() {
        Code::Ok => format!("OK {limit}, {} left", status.limit_remaining),
        Code::OverLimit => {
            assert_eq!(status.limit_remaining, 0, "remaining is 0 if over the limit");
            format!("OVER {limit}")
        }
        Code::Unknown => panic!("a status always has a code"),
    }
}

/// All statuses, in order.
pub fn statuses(answer: &RateLimitResponse) -> String {
    answer.statuses.iter().map(status_summary).collect::<Vec<_>>().join(" | ")
}

/// The overall code.
pub fn overall(answer: &RateLimitResponse) -> &'static str {
    match answer.overall_code() {
        Code::Ok => "OK",
        Code::OverLimit => "OVER",
        Code::Unknown => panic!("an answer always has a code"),
    }
}

/// The headers for the client, as `name: value`.
pub fn headers(answer: &RateLimitResponse) -> Vec<String> {
    answer.response_headers_to_add.iter().map(|header| format!("{}: {}", header.key, header.value)).collect()
}
