//! Whom a receiver takes us for.

use crate::settings::otel::NamedService;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;

/// The service, its version, and which of its instances this is: `node` is its name in the mesh, and where there is
/// none the host's with the `port` that it answers at, since two of one host must not write one series.
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

/// An attribute with a text.
pub fn attribute(key: &str, text: String) -> KeyValue {
    let value = AnyValue { value: Some(any_value::Value::StringValue(text)) };
    KeyValue { key: key.to_owned(), value: Some(value), ..KeyValue::default() }
}
