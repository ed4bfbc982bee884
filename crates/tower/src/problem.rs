//! Problem document (RFC 9457) of a refusal, written into one buffer.

use crate::decision::Decision;
use crate::retry_after::RetryAfter;
use bytes::Bytes;

const START: &str = concat!(
    r#"{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","#,
    r#""title":"Too Many Requests","status":429,"detail":""#
);

pub(crate) fn body(reset: Option<u64>, decision: &Decision) -> Bytes {
    let mut digits = itoa::Buffer::new();
    let mut body = Vec::with_capacity(384);
    let mut push = |text: &str| body.extend_from_slice(text.as_bytes());
    push(START);
    let wait = decision.retry_after();
    match wait {
        Some(RetryAfter::Seconds(seconds)) if seconds.get() > 1 => {
            push("Rate limit exceeded. Retry after ");
            push(digits.format(seconds.get()));
            push(" seconds.");
        }
        // The other sentences are rare; their `Display` allocates.
        Some(other) => push(&other.to_string()),
        None => {}
    }
    push(r#"","violated-policies":[""#);
    // A policy's name needs no escaping: services and endpoints are validated when they are configured.
    push(&decision.bucket().policy.name);
    push(r#""],"limit":"#);
    push(digits.format(decision.limit().requests()));
    push(r#","remaining":"#);
    push(digits.format(decision.remaining()));
    push(r#","reset":"#);
    push(reset.map_or("null", |reset| digits.format(reset)));
    push(r#","retry_after":"#);
    match wait {
        Some(RetryAfter::Seconds(seconds)) => push(digits.format(seconds.get())),
        _ => push("null"),
    }
    push("}");
    Bytes::from(body)
}
