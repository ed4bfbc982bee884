//! Metrics as they are read: families of series, made of the counters when somebody asks. Two writers know them, that
//! of Prometheus' text and that of OTLP, so that both tell the same.

use hivemind_core::Timestamp;

/// All series of one name.
#[derive(Clone, Debug)]
pub struct Family {
    /// With dots where the design has them; Prometheus' text has `_` for each.
    pub name: String,
    pub help: &'static str,
    /// As UCUM writes it; empty where things are counted.
    pub unit: &'static str,
    pub kind: MetricType,
    /// Whether a label may have a text that a request brought, as the reference's names may. Those are told to who
    /// asks for them in the reference's way, and sent to nobody.
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
    /// Since when it is counted; none: since the process was started.
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
    /// The upper edge of each bucket but the last, which has none.
    pub edges: Vec<f64>,
    /// How many are in each bucket, without those before it.
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

    /// With a series that has no labels.
    pub fn plain(self, value: u64) -> Self {
        self.with([], value)
    }

    /// With a series that has these labels.
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

/// A count as a level; past 2^53 its last digits go, which no count here reaches.
#[expect(clippy::cast_precision_loss, reason = "levels are read as floating-point numbers by everybody")]
pub(crate) fn as_level(count: u64) -> f64 {
    count as f64
}
