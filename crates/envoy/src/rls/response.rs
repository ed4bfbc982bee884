//! A `RateLimitResponse`, encoded exactly like prost, into a reused buffer: an ordinary response allocates nothing.

use crate::proto::envoy::service::ratelimit::v3::rate_limit_response::{self as response, rate_limit::Unit};
use hivemind_core::Period;
use hivemind_engine::service::{Code, CurrentLimit, DecisionResponse, Grant, Status};
use prost::Message;
use prost_types::{ListValue, Struct, Value, value::Kind};
use smallvec::SmallVec;

/// Appends the message.
pub(crate) fn write(answer: &DecisionResponse<'_>, out: &mut Vec<u8>) {
    number(1, code(answer.overall), out);
    for status in &answer.statuses {
        nested(2, out, |out| write_status(status, out));
    }
    for (key, value) in &answer.response_headers {
        nested(3, out, |out| write_header(key, value, out));
    }
    for (key, value) in &answer.request_headers {
        nested(4, out, |out| write_header(key, value, out));
    }
    text(5, answer.raw_body.unwrap_or_default(), out);
    if let Some(metadata) = &answer.dynamic_metadata {
        bytes(6, &to_struct(metadata).encode_to_vec(), out);
    }
    let grants = answer.statuses.iter().filter_map(|status| status.grant.as_ref());
    if let Some(least) = grants.min_by_key(|grant| grant.requests) {
        nested(7, out, |out| write_grant(least, out));
    }
}

fn write_status(status: &Status<'_>, out: &mut Vec<u8>) {
    number(1, code(status.code), out);
    if let Some(current) = &status.limit {
        nested(2, out, |out| write_limit(current, out));
    }
    number(3, status.remaining.into(), out);
    if let Some(seconds) = status.reset_seconds() {
        // A duration is a signed number of seconds.
        nested(4, out, |out| number(1, seconds.min(i64::MAX.unsigned_abs()), out));
    }
    if let Some(grant) = &status.grant {
        nested(5, out, |out| write_grant(grant, out));
    }
}

fn write_limit(current: &CurrentLimit<'_>, out: &mut Vec<u8>) {
    number(1, current.limit.requests().into(), out);
    number(2, unit(current.limit.period()), out);
    text(3, current.name, out);
}

fn write_grant(grant: &Grant<'_>, out: &mut Vec<u8>) {
    const SECOND: u64 = 1_000_000_000;
    let nanos = grant.valid_until.as_nanos();
    number(1, grant.requests.into(), out);
    nested(2, out, |out| {
        number(1, nanos / SECOND, out);
        number(2, nanos % SECOND, out);
    });
    text(3, grant.id, out);
}

fn write_header(key: &str, value: &str, out: &mut Vec<u8>) {
    text(1, key, out);
    text(2, value, out);
}

fn code(code: Code) -> u64 {
    let code = match code {
        Code::Ok => response::Code::Ok,
        Code::OverLimit => response::Code::OverLimit,
    };
    code as u64
}

/// The unit in the protocol; `UNKNOWN` for other periods.
fn unit(period: Period) -> u64 {
    let unit = match period {
        Period::SECOND => Unit::Second,
        Period::MINUTE => Unit::Minute,
        Period::HOUR => Unit::Hour,
        Period::DAY => Unit::Day,
        Period::WEEK => Unit::Week,
        Period::MONTH => Unit::Month,
        Period::YEAR => Unit::Year,
        _ => Unit::Unknown,
    };
    unit as u64
}

/// Writes an integer field; 0 is omitted.
#[inline]
fn number(field: u8, value: u64, out: &mut Vec<u8>) {
    if value != 0 {
        out.push(field << 3);
        varint(value, out);
    }
}

/// Writes a string field; an empty one is omitted.
fn text(field: u8, value: &str, out: &mut Vec<u8>) {
    if !value.is_empty() {
        bytes(field, value.as_bytes(), out);
    }
}

fn bytes(field: u8, value: &[u8], out: &mut Vec<u8>) {
    out.push(field << 3 | 2);
    varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// Writes a message field in place. One byte is reserved for its length; in the rare case that more are needed, the
/// message moves.
#[inline]
fn nested(field: u8, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    out.push(field << 3 | 2);
    let length_at = out.len();
    out.push(0);
    let start = out.len();
    write(out);
    let length = out.len() - start;
    if let (Ok(short @ ..0x80), Some(length_byte)) = (u8::try_from(length), out.get_mut(length_at)) {
        *length_byte = short;
    } else {
        let mut prefix = SmallVec::<[u8; 10]>::new();
        varint(length as u64, &mut prefix);
        out.splice(length_at..start, prefix);
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "seven bits at a time")]
fn varint(mut value: u64, out: &mut impl Extend<u8>) {
    while value >= 0x80 {
        out.extend([value as u8 | 0x80]);
        value >>= 7;
    }
    out.extend([value as u8]);
}

fn to_struct(value: &serde_json::Value) -> Struct {
    let fields = value.as_object().into_iter().flatten();
    Struct { fields: fields.map(|(key, value)| (key.clone(), to_value(value))).collect() }
}

fn to_value(value: &serde_json::Value) -> Value {
    let kind = match value {
        serde_json::Value::Null => Kind::NullValue(0),
        serde_json::Value::Bool(value) => Kind::BoolValue(*value),
        serde_json::Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or(f64::NAN)),
        serde_json::Value::String(text) => Kind::StringValue(text.clone()),
        serde_json::Value::Array(items) => {
            Kind::ListValue(ListValue { values: items.iter().map(to_value).collect() })
        }
        serde_json::Value::Object(_) => Kind::StructValue(to_struct(value)),
    };
    Value { kind: Some(kind) }
}
