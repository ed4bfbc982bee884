//! Spans in OTLP.

use super::span::{AttributeValue, Span, SpanKind, SpanStatus};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, any_value,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1 as proto;
use proto::span::SpanKind as ProtoKind;
use proto::status::StatusCode;

/// Flags of a parent: whether its process is known, and whether it is remote.
const KNOWS_WHERE_PARENT_IS: u32 = 1 << 8;
const PARENT_IS_REMOTE: u32 = 1 << 9;
/// As in `traceparent`.
const SAMPLED: u32 = 1;

/// One message with these spans.
pub(super) fn request(resource: &Resource, spans: Vec<Span>) -> ExportTraceServiceRequest {
    let scope = InstrumentationScope {
        name: "hivemind".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let scope_spans = proto::ScopeSpans {
        scope: Some(scope),
        spans: spans.into_iter().map(span).collect(),
        schema_url: String::new(),
    };
    let resource_spans = proto::ResourceSpans {
        resource: Some(resource.clone()),
        scope_spans: vec![scope_spans],
        schema_url: String::new(),
    };
    ExportTraceServiceRequest { resource_spans: vec![resource_spans] }
}

fn span(span: Span) -> proto::Span {
    let kind = match span.kind {
        SpanKind::Internal => ProtoKind::Internal,
        SpanKind::Server => ProtoKind::Server,
    };
    let remote = if span.is_remote { PARENT_IS_REMOTE } else { 0 };
    proto::Span {
        trace_id: span.trace.bits().to_be_bytes().to_vec(),
        span_id: span.id.bits().to_be_bytes().to_vec(),
        parent_span_id: span.parent.map(|parent| parent.bits().to_be_bytes().to_vec()).unwrap_or_default(),
        trace_state: span.state.map(String::from).unwrap_or_default(),
        flags: SAMPLED | KNOWS_WHERE_PARENT_IS | remote,
        name: span.name.to_owned(),
        kind: kind.into(),
        start_time_unix_nano: span.began.as_nanos(),
        end_time_unix_nano: span.ended.as_nanos(),
        attributes: span.attributes.into_iter().map(|(key, value)| attribute(key, value)).collect(),
        status: status(span.status),
        ..proto::Span::default()
    }
}

/// Unset status.
fn status(status: SpanStatus) -> Option<proto::Status> {
    let (code, message) = match status {
        SpanStatus::Unset => return None,
        SpanStatus::Ok => (StatusCode::Ok, ""),
        SpanStatus::Error(why) => (StatusCode::Error, why),
    };
    Some(proto::Status { code: code.into(), message: message.to_owned() })
}

fn attribute(key: &str, value: AttributeValue) -> KeyValue {
    let text = |text: String| any_value::Value::StringValue(text);
    let value = match value {
        AttributeValue::Flag(flag) => any_value::Value::BoolValue(flag),
        AttributeValue::Number(number) => any_value::Value::IntValue(number),
        AttributeValue::Text(words) => text(words.into_owned()),
        AttributeValue::List(words) => {
            let values = words.into_iter().map(|word| AnyValue { value: Some(text(word.into())) });
            any_value::Value::ArrayValue(ArrayValue { values: values.collect() })
        }
    };
    KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..KeyValue::default() }
}
