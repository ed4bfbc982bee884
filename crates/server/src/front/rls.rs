//! Envoy's rate limit service: its messages to our types and back. The only file that speaks protobuf.

use crate::proto::envoy::config::core::v3::HeaderValue;
use crate::proto::envoy::extensions::common::ratelimit::v3 as descriptor;
use crate::proto::envoy::service::ratelimit::v3 as rls;
use crate::proto::envoy::r#type::v3::RateLimitUnit;
use crate::service::{Answer, Code, Grant, Service, Status};
use descriptor::RateLimitDescriptor;
use hivemind_core::store::Op;
use hivemind_core::{Clock, Cost, Descriptor, Entry, Limit, Period, SystemClock};
use prost_types::{Duration, ListValue, Struct, Timestamp, Value, value::Kind};
use rls::rate_limit_response::{self as response, RateLimit, rate_limit::Unit};
use smallvec::SmallVec;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// More descriptors than this are no request.
const MOST_DESCRIPTORS: usize = 256;

/// Why a request cannot be decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadRequest {
    #[error("rate limit domain must not be empty")]
    EmptyDomain,
    #[error("rate limit descriptor list must not be empty")]
    NoDescriptors,
    #[error("no rate limit configuration loaded")]
    NoRules,
    #[error("a request has at most {MOST_DESCRIPTORS} descriptors; this one has {count}")]
    TooManyDescriptors { count: usize },
    #[error(
        "descriptor {index} brings a limit with unit {unit}; known are SECOND 1, MINUTE 2, HOUR 3, DAY 4, MONTH 5, YEAR 6"
    )]
    UnknownUnit { index: usize, unit: i32 },
}

/// The service behind its protocol.
#[derive(Clone)]
pub(crate) struct RateLimitService(pub(crate) Arc<Service>);

impl RateLimitService {
    /// Answers one request, and counts it.
    pub(crate) fn answer(
        &self,
        request: &rls::RateLimitRequest,
    ) -> Result<rls::RateLimitResponse, BadRequest> {
        let from = SystemClock.now();
        let answer = decide(&self.0, request);
        if answer.is_err() {
            self.0.stats().service_errors.fetch_add(1, Ordering::Relaxed);
        }
        self.0.stats().answered(SystemClock.now().since(from));
        Ok(to_message(answer?))
    }
}

#[tonic::async_trait]
impl rls::rate_limit_service_server::RateLimitService for RateLimitService {
    async fn should_rate_limit(
        &self,
        request: tonic::Request<rls::RateLimitRequest>,
    ) -> Result<tonic::Response<rls::RateLimitResponse>, tonic::Status> {
        let answer = self.answer(request.get_ref());
        answer.map(tonic::Response::new).map_err(|error| tonic::Status::invalid_argument(error.to_string()))
    }
}

fn decide(service: &Service, request: &rls::RateLimitRequest) -> Result<Answer, BadRequest> {
    if request.domain.is_empty() {
        return Err(BadRequest::EmptyDomain);
    }
    let count = request.descriptors.len();
    if count == 0 {
        return Err(BadRequest::NoDescriptors);
    }
    if count > MOST_DESCRIPTORS {
        return Err(BadRequest::TooManyDescriptors { count });
    }
    if !service.has_rules() {
        return Err(BadRequest::NoRules);
    }
    let entries: SmallVec<[SmallVec<[Entry<'_>; 4]>; 2]> = request
        .descriptors
        .iter()
        .map(|descriptor| descriptor.entries.iter().map(|entry| (&*entry.key, &*entry.value)).collect())
        .collect();
    let mut descriptors: SmallVec<[Descriptor<'_>; 2]> = SmallVec::new();
    for (index, (message, entries)) in request.descriptors.iter().zip(&entries).enumerate() {
        descriptors.push(Descriptor {
            entries,
            cost: hits(request, message),
            op: if message.is_negative_hits { Op::Refund } else { Op::Spend },
            limit: brought_limit(index, message)?,
        });
    }
    Ok(service.decide(&request.domain, &descriptors, || told(request)))
}

/// The request in the reference's words, with what it left out left out.
fn told(request: &rls::RateLimitRequest) -> serde_json::Map<String, serde_json::Value> {
    let descriptor = |message: &RateLimitDescriptor| {
        let entries = message.entries.iter().map(|entry| format!("{}={}", entry.key, entry.value));
        let mut told = serde_json::Map::from_iter([("entries".to_owned(), entries.collect())]);
        if let Some(limit) = &message.limit {
            let unit = limit.unit().as_str_name();
            told.insert(
                "limit".into(),
                format!("requests_per_unit:{} unit:{unit}", limit.requests_per_unit).into(),
            );
        }
        if let Some(hits) = message.hits_addend {
            told.insert("hitsAddend".into(), hits.into());
        }
        serde_json::Value::Object(told)
    };
    let mut told = serde_json::Map::new();
    told.insert("domain".into(), request.domain.as_str().into());
    told.insert("descriptors".into(), request.descriptors.iter().map(descriptor).collect());
    if request.hits_addend > 0 {
        told.insert("hitsAddend".into(), request.hits_addend.into());
    }
    told
}

/// A descriptor's own hits count, also where they are 0; else those of the request, where 0 is 1.
fn hits(request: &rls::RateLimitRequest, message: &RateLimitDescriptor) -> Cost {
    Cost::new(message.hits_addend.unwrap_or_else(|| u64::from(request.hits_addend.max(1))))
}

fn brought_limit(index: usize, message: &RateLimitDescriptor) -> Result<Option<Limit>, BadRequest> {
    let Some(limit) = &message.limit else { return Ok(None) };
    let period = match RateLimitUnit::try_from(limit.unit) {
        Ok(RateLimitUnit::Second) => Period::SECOND,
        Ok(RateLimitUnit::Minute) => Period::MINUTE,
        Ok(RateLimitUnit::Hour) => Period::HOUR,
        Ok(RateLimitUnit::Day) => Period::DAY,
        Ok(RateLimitUnit::Month) => Period::MONTH,
        Ok(RateLimitUnit::Year) => Period::YEAR,
        Ok(RateLimitUnit::Unknown) | Err(_) => {
            return Err(BadRequest::UnknownUnit { index, unit: limit.unit });
        }
    };
    Ok(Some(Limit::fixed_window(limit.requests_per_unit, period)))
}

fn to_message(answer: Answer) -> rls::RateLimitResponse {
    let header = |(key, value)| HeaderValue { key, value, raw_value: Vec::new() };
    let least =
        answer.statuses.iter().filter_map(|status| status.grant.as_ref()).min_by_key(|grant| grant.requests);
    rls::RateLimitResponse {
        overall_code: code(answer.overall).into(),
        quota: least.map(quota),
        statuses: answer.statuses.iter().map(status).collect(),
        response_headers_to_add: answer.response_headers.into_iter().map(header).collect(),
        request_headers_to_add: answer.request_headers.into_iter().map(header).collect(),
        raw_body: answer.raw_body.map(String::into_bytes).unwrap_or_default(),
        dynamic_metadata: answer.dynamic_metadata.as_ref().map(to_struct),
    }
}

fn code(code: Code) -> response::Code {
    match code {
        Code::Ok => response::Code::Ok,
        Code::OverLimit => response::Code::OverLimit,
    }
}

fn status(status: &Status) -> response::DescriptorStatus {
    response::DescriptorStatus {
        code: code(status.code).into(),
        current_limit: status.limit.as_ref().map(|current| RateLimit {
            requests_per_unit: current.limit.requests(),
            unit: unit(current.limit.period()).into(),
            name: current.name.clone(),
        }),
        limit_remaining: status.remaining,
        duration_until_reset: status
            .reset_seconds()
            .map(|seconds| Duration { seconds: i64::try_from(seconds).unwrap_or(i64::MAX), nanos: 0 }),
        quota: status.grant.as_ref().map(quota),
    }
}

fn quota(grant: &Grant) -> response::Quota {
    let nanos = grant.valid_until.as_nanos();
    let valid_until = Timestamp {
        seconds: i64::try_from(nanos / 1_000_000_000).unwrap_or(i64::MAX),
        nanos: i32::try_from(nanos % 1_000_000_000).unwrap_or(0),
    };
    response::Quota {
        requests: grant.requests,
        id: grant.id.clone(),
        expiration_specifier: Some(response::quota::ExpirationSpecifier::ValidUntil(valid_until)),
    }
}

/// The protocol's unit; a period that is none of them has no name there.
fn unit(period: Period) -> Unit {
    match period {
        Period::SECOND => Unit::Second,
        Period::MINUTE => Unit::Minute,
        Period::HOUR => Unit::Hour,
        Period::DAY => Unit::Day,
        Period::WEEK => Unit::Week,
        Period::MONTH => Unit::Month,
        Period::YEAR => Unit::Year,
        _ => Unit::Unknown,
    }
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
