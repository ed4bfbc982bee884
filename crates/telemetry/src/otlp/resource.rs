//! OTLP resource: the identity of this process for receivers.

use crate::settings::otel::NamedService;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;

/// The service, its version and its instance: the `node` name in the mesh, or the host name with the `port`, since
/// two processes on one host must not write the same series.
pub fn resource(service: &NamedService, node: Option<&str>, port: Option<u16>) -> Resource {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let instance = match (node, port) {
        (Some(node), _) => node.to_owned(),
        (None, Some(port)) => format!("{host}:{port}"),
        (None, None) => host,
    };
    let attributes = [
        ("service.name", service.name.clone()),
        ("service.version", service.version.clone()),
        ("service.instance.id", instance),
    ];
    let attributes = attributes.into_iter().map(|(key, text)| attribute(key, text)).collect();
    Resource { attributes, ..Resource::default() }
}

/// A text attribute.
pub fn attribute(key: &str, text: String) -> KeyValue {
    let value = AnyValue { value: Some(any_value::Value::StringValue(text)) };
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}
