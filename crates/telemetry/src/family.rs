//! Metric families: series built from the counters on demand. The writers of the Prometheus text and of OTLP use the
//! same families, so both export the same values.

use hivemind_core::Timestamp;

/// All series of one name.
#[derive(Clone, Debug)]
pub struct Family {
    /// May contain dots, which the Prometheus text replaces by `_`.
    pub name: String,
    pub help: &'static str,
    /// UCUM unit; empty for plain counts.
    pub unit: &'static str,
    pub kind: MetricType,
    /// Whether a label may contain text of a request, as names of the reference service do. Such families are
    /// available to Prometheus only and never sent by OTLP.
    pub is_of_requests: bool,
    pub series: Vec<Series>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricType {
    /// Only ever grows.
    Counter,
    Gauge,
    Histogram,
}

impl MetricType {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Series {
    pub labels: Vec<(&'static str, String)>,
    pub value: MetricValue,
    /// Start of the count; `None`: the start of the process.
    pub since: Option<Timestamp>,
}

#[derive(Clone, Debug)]
pub enum MetricValue {
    Count(u64),
    Level(f64),
    Histogram(Histogram),
}

/// A histogram.
#[derive(Clone, Debug)]
pub struct Histogram {
    /// Upper bound of each bucket except the last, which has none.
    pub edges: Vec<f64>,
    /// Count of each bucket; not cumulative.
    pub buckets: Vec<u64>,
    pub sum: f64,
}

impl Histogram {
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

impl Family {
    pub fn new(name: impl Into<String>, kind: MetricType, help: &'static str) -> Self {
        let (name, unit) = (name.into(), "");
        Self { name, help, unit, kind, is_of_requests: false, series: Vec::new() }
    }

    pub fn counter(name: impl Into<String>, help: &'static str) -> Self {
        Self::new(name, MetricType::Counter, help)
    }

    pub fn gauge(name: impl Into<String>, help: &'static str) -> Self {
        Self::new(name, MetricType::Gauge, help)
    }

    pub fn histogram(name: impl Into<String>, help: &'static str) -> Self {
        Self::new(name, MetricType::Histogram, help)
    }

    pub fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    pub fn of_requests(self) -> Self {
        Self { is_of_requests: true, ..self }
    }

    /// Adds a series without labels.
    pub fn plain(self, value: u64) -> Self {
        self.with([], value)
    }

    /// Adds a series with these labels.
    pub fn with<const N: usize>(mut self, labels: [(&'static str, &str); N], value: u64) -> Self {
        let value = match self.kind {
            MetricType::Counter => MetricValue::Count(value),
            MetricType::Gauge | MetricType::Histogram => MetricValue::Level(as_level(value)),
        };
        self.add(labels, value, None);
        self
    }

    pub fn add<const N: usize>(
        &mut self,
        labels: [(&'static str, &str); N],
        value: MetricValue,
        since: Option<Timestamp>,
    ) {
        let labels = labels.into_iter().map(|(name, text)| (name, text.to_owned())).collect();
        self.series.push(Series { labels, value, since });
    }
}

/// A count as a gauge value; exact up to 2^53, which no count here reaches.
#[expect(clippy::cast_precision_loss, reason = "Prometheus and OTLP read gauges as floating-point numbers")]
pub(crate) fn as_level(count: u64) -> f64 {
    count as f64
}
