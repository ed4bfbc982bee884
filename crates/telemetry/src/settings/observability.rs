//! `observability`: metrics, logs, traces and recorded decisions.

use super::log::{self, LogSettings};
use super::otel::{self, Otel};
use hivemind_config::reader::Section;
use hivemind_config::value_kind::{FLAG, HTTP_PATH, HttpPath, PORT, ValueKind};

/// Settings of `observability`.
#[derive(Clone, Debug, PartialEq)]
pub struct Observability {
    pub log: LogSettings,
    /// Address of the Prometheus metrics; `None`: disabled.
    pub prometheus_path: Option<HttpPath>,
    pub otel: Otel,
    /// Number of recorded decisions; 0: none.
    pub decision_ring: usize,
}

/// About 4 MiB.
const USUAL_RING: usize = 10_000;
const RING: ValueKind<usize> = ValueKind::bare("a whole number from 0 to 100000", "10000", |text| {
    text.parse().ok().filter(|number| *number <= 100_000)
});

impl Observability {
    /// Whether request metrics are read, by Prometheus or by an OTLP receiver.
    pub fn are_metrics_read(&self) -> bool {
        self.prometheus_path.is_some() || self.otel.metrics.is_some()
    }
}

/// Also the default of `server.metrics_port`.
pub fn read(mut section: Section<'_, '_>) -> (Observability, Option<u16>) {
    let metrics = section.superseded("metrics_enabled", &FLAG, Ok("observability.prometheus.enabled"));
    let tracing = section.superseded("tracing_enabled", &FLAG, Ok("observability.otel.tracing.enabled"));
    let log = log::read(&mut section);
    let decision_ring = section.read("decision_ring", &RING).unwrap_or(USUAL_RING);
    let otel = otel::read(section.section("otel"), metrics, tracing);
    let mut prometheus = section.section("prometheus");
    let port = prometheus.superseded("port", &PORT, Ok("server.metrics_port"));
    let enabled = prometheus.read("enabled", &FLAG).or(metrics).unwrap_or(true);
    let path = prometheus.read("path", &HTTP_PATH).or_else(|| HttpPath::new("/metrics"));
    let prometheus_path = path.filter(|_| enabled);
    (Observability { log, prometheus_path, otel, decision_ring }, port)
}
