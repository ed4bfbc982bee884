//! `observability.otel`: signals that are sent by OTLP, and their receivers. Without an endpoint nothing is sent.

use hivemind_config::form::Form;
use hivemind_config::reader::Section;
use hivemind_config::value_kind::{FLAG, RATIO, SPAN, ValueKind, WORD};
use hivemind_tls::authority;
use std::fmt;
use std::time::Duration;

/// Signals that are sent by OTLP, and their receivers.
#[derive(Clone, Debug, PartialEq)]
pub struct Otel {
    pub service: NamedService,
    pub metrics: Option<Destination>,
    pub metrics_interval: Duration,
    pub tracing: Option<Tracing>,
}

/// Traces and their receiver.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracing {
    pub destination: Destination,
    /// Share of the traces that begin here, from 0 to 1.
    pub sample_rate: f64,
    pub on_limit: StatusOnLimit,
}

/// The status of a span whose request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusOnLimit {
    /// The status that the OpenTelemetry conventions define for 429.
    Unset,
    Ok,
}

/// Identity of this process for receivers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedService {
    pub name: String,
    pub version: String,
}

/// Receiver of one signal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Destination {
    pub endpoint: OtlpEndpoint,
    pub protocol: OtlpProtocol,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtlpProtocol {
    Grpc,
    Http,
}

/// A receiver's URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpEndpoint {
    pub is_tls: bool,
    /// Without the brackets of an IPv6 address.
    pub host: String,
    pub port: u16,
    /// Prefix of each request's path, without a final slash.
    pub path: String,
}

impl OtlpEndpoint {
    fn parse(text: &str) -> Option<Self> {
        let uri: http::Uri = text.parse().ok()?;
        let is_tls = match uri.scheme_str()? {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let authority = uri.authority()?;
        // A password here would appear in a log.
        let host = authority::host(authority.as_str())?.trim_matches(['[', ']']).to_owned();
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let path = uri.path().trim_end_matches('/').to_owned();
        (port > 0 && uri.query().is_none()).then_some(Self { is_tls, host, port, path })
    }

    /// Host and port for the `Host` of a request.
    pub fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for OtlpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.path)
    }
}

/// Values, and whether they send anything; Prometheus fetches its metrics instead.
const METRICS_EXPORTERS: &[(&str, bool)] = &[("otlp", true), ("prometheus", false), ("both", true)];
const TRACE_EXPORTERS: &[(&str, bool)] = &[("otlp", true)];
const ON_LIMIT: &[(&str, StatusOnLimit)] = &[("unset", StatusOnLimit::Unset), ("ok", StatusOnLimit::Ok)];
const PROTOCOLS: &[(&str, OtlpProtocol)] = &[("grpc", OtlpProtocol::Grpc), ("http", OtlpProtocol::Http)];
const ENDPOINT: ValueKind<OtlpEndpoint> = ValueKind::text(
    "a URL of http or https, without a user and without a query",
    "http://127.0.0.1:4317",
    OtlpEndpoint::parse,
)
.written(Form::Pattern("^https?://[^\\s?]+$"))
.called("URL", "URLs");
/// Bounds of the interval.
const INTERVAL: Duration = Duration::from_secs(10);

pub fn read(mut section: Section<'_, '_>, older_metrics: Option<bool>, older_tracing: Option<bool>) -> Otel {
    let metrics = destination(section.section("metrics"), METRICS_EXPORTERS, older_metrics);
    let metrics_interval = section.section("metrics").read("interval", &SPAN).unwrap_or(INTERVAL);
    let tracing = tracing(section.section("tracing"), older_tracing);
    let mut resource = section.section("resource");
    let name = resource.read("service_name", &WORD).unwrap_or_else(|| "hivemind".to_owned());
    let version = resource.read("service_version", &WORD).filter(|version| version != "auto");
    let version = version.unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned());
    Otel { service: NamedService { name, version }, metrics, metrics_interval, tracing }
}

fn tracing(mut section: Section<'_, '_>, older: Option<bool>) -> Option<Tracing> {
    let sample_rate = section.read("sample_rate", &RATIO).unwrap_or(1.0);
    let on_limit = section.choice("span_status_on_limit", ON_LIMIT).unwrap_or(StatusOnLimit::Unset);
    let destination = destination(section, TRACE_EXPORTERS, older)?;
    Some(Tracing { destination, sample_rate, on_limit })
}

/// The receiver of a signal; `None` if it is not sent.
fn destination(
    mut section: Section<'_, '_>,
    exporters: &[(&'static str, bool)],
    older: Option<bool>,
) -> Option<Destination> {
    let enabled = section.read("enabled", &FLAG).or(older).unwrap_or(true);
    let sends = section.choice("exporter", exporters).unwrap_or(true);
    let protocol = section.choice("protocol", PROTOCOLS).unwrap_or(OtlpProtocol::Grpc);
    let endpoint = section.read("endpoint", &ENDPOINT)?;
    (enabled && sends).then_some(Destination { endpoint, protocol })
}
