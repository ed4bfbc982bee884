//! `observability`: what is told about it, and where.

use super::kind::{FLAG, HTTP_PATH, HttpPath, PORT, RATIO, SPAN, URL, WORD};
use super::log::{self, Log};
use super::reading::Section;

/// What is told about it, and where.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Observability {
    pub(crate) log: Log,
    /// Where Prometheus finds the metrics; none: nowhere.
    pub(crate) prometheus_path: Option<HttpPath>,
}

/// With whether they send anything: Prometheus comes and fetches.
const METRICS_EXPORTERS: &[(&str, bool)] = &[("otlp", true), ("prometheus", false), ("both", true)];
const TRACE_EXPORTERS: &[(&str, bool)] = &[("otlp", true)];
const PROTOCOLS: &[(&str, ())] = &[("grpc", ()), ("http", ())];

/// Also the port that `server.metrics_port` is now.
pub(super) fn read(mut section: Section<'_, '_>) -> (Observability, Option<u16>) {
    let metrics = section.superseded("metrics_enabled", &FLAG, Ok("observability.prometheus.enabled"));
    let tracing = section.superseded("tracing_enabled", &FLAG, Ok("observability.otel.tracing.enabled"));
    let log = log::read(&mut section);
    if exports(section.section("otel"), tracing) {
        section.not_yet("otel", "exporting to OpenTelemetry is");
    }
    let mut prometheus = section.section("prometheus");
    let port = prometheus.superseded("port", &PORT, Ok("server.metrics_port"));
    let enabled = prometheus.read("enabled", &FLAG).or(metrics).unwrap_or(true);
    let path = prometheus.read("path", &HTTP_PATH).or_else(|| HttpPath::new("/metrics"));
    let prometheus_path = path.filter(|_| enabled);
    (Observability { log, prometheus_path }, port)
}

/// Whether it asks for anything to be sent anywhere. Without an endpoint nothing is.
fn exports(mut section: Section<'_, '_>, older_tracing: Option<bool>) -> bool {
    let mut asks = false;
    let signals = [("metrics", METRICS_EXPORTERS, None), ("tracing", TRACE_EXPORTERS, older_tracing)];
    for (signal, exporters, older) in signals {
        let mut section = section.section(signal);
        let enabled = section.read("enabled", &FLAG).or(older).unwrap_or(true);
        let sends = section.choice("exporter", exporters).unwrap_or(true);
        let has_endpoint = section.read("endpoint", &URL).is_some();
        section.choice("protocol", PROTOCOLS);
        asks |= enabled && sends && has_endpoint;
    }
    section.section("metrics").read("interval", &SPAN);
    section.section("tracing").read("sample_rate", &RATIO);
    let mut resource = section.section("resource");
    resource.read("service_name", &WORD);
    resource.read("service_version", &WORD);
    asks
}
