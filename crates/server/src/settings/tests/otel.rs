//! Tests of the OTLP settings.

use super::{defaults, yaml};
use hivemind_telemetry::settings::otel::OtlpProtocol;
use hivemind_telemetry::settings::otel::StatusOnLimit;
use std::time::Duration;

#[test]
fn metrics_are_sent_with_an_endpoint_unless_disabled() {
    let sent =
        |text: &str| yaml(&format!("observability: {{otel: {{metrics: {{{text}}}}}}}")).unwrap().settings;
    for text in ["endpoint: 'http://c:4317'", "endpoint: 'http://c:4317', exporter: both"] {
        let metrics = sent(text).observability.otel.metrics.unwrap();
        assert_eq!((metrics.protocol, metrics.endpoint.port), (OtlpProtocol::Grpc, 4317), "{text}");
    }
    for text in [
        "enabled: true, exporter: otlp",
        "enabled: false, endpoint: 'http://c:4317'",
        "exporter: prometheus, endpoint: 'http://c:4317'",
    ] {
        assert_eq!(sent(text), defaults(), "{text}");
    }
    let otel = sent("endpoint: 'http://c', protocol: http, interval: 500ms").observability.otel;
    assert_eq!(otel.metrics.unwrap().protocol, OtlpProtocol::Http);
    assert_eq!(otel.metrics_interval, Duration::from_millis(500));
}

#[test]
fn traces_are_sent_with_configured_rate_and_status() {
    let sent =
        |text: &str| yaml(&format!("observability: {{otel: {{tracing: {{{text}}}}}}}")).unwrap().settings;
    let of = |text: &str| sent(text).observability.otel.tracing.unwrap();
    let usual = of("endpoint: 'http://c:4317'");
    assert_eq!(usual.destination.protocol, OtlpProtocol::Grpc);
    assert_eq!((usual.sample_rate.to_string().as_str(), usual.on_limit), ("1", StatusOnLimit::Unset));
    let other = of("endpoint: 'http://c', protocol: http, sample_rate: 0.25, span_status_on_limit: ok");
    assert_eq!(other.destination.protocol, OtlpProtocol::Http);
    assert_eq!((other.sample_rate.to_string().as_str(), other.on_limit), ("0.25", StatusOnLimit::Ok));
    for text in ["sample_rate: 0.5, span_status_on_limit: ok", "enabled: false, endpoint: 'http://c:4317'"] {
        assert_eq!(sent(text), defaults(), "{text}");
    }
}

#[test]
fn otlp_endpoint_is_a_url_with_optional_port_and_path() {
    let endpoint = |url: &str| {
        let text = format!("observability: {{otel: {{metrics: {{endpoint: '{url}'}}}}}}");
        yaml(&text).map(|loaded| loaded.settings.observability.otel.metrics.unwrap().endpoint)
    };
    for (url, is_tls, host, port, path) in [
        ("http://c", false, "c", 80, ""),
        ("https://c.example/", true, "c.example", 443, ""),
        ("http://192.0.2.1:4317", false, "192.0.2.1", 4317, ""),
        ("https://[2001:db8::1]:4318/otlp/", true, "2001:db8::1", 4318, "/otlp"),
    ] {
        let found = endpoint(url).unwrap();
        let of = (found.is_tls, found.host.as_str(), found.port, found.path.as_str());
        assert_eq!(of, (is_tls, host, port, path), "{url}");
        assert_eq!(endpoint(&found.to_string()).unwrap(), found, "{url}");
    }
    for wrong in
        ["c:4317", "ftp://c", "http://", "http://user:secret@c", "http://c?key=1", "http://c:0", "http://a b"]
    {
        assert!(endpoint(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn otlp_service_defaults_to_hivemind_and_its_version() {
    let service = |text: &str| {
        let text = format!("observability: {{otel: {{resource: {{{text}}}}}}}");
        yaml(&text).unwrap().settings.observability.otel.service
    };
    let of = service("service_version: auto");
    assert_eq!((of.name.as_str(), of.version.as_str()), ("hivemind", env!("CARGO_PKG_VERSION")));
    let of = service("service_name: edge, service_version: '7'");
    assert_eq!((of.name.as_str(), of.version.as_str()), ("edge", "7"));
}
