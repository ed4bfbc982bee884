//! OTLP messages in a short form: `name{key=value,...}` with a number; labels keep their order.

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::{HistogramDataPoint, Metric, number_data_point};
use std::collections::BTreeMap;

pub(crate) fn text(pair: &KeyValue) -> &str {
    match pair.value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(any_value::Value::StringValue(text)) => text,
        other => panic!("{} is {other:?}", pair.key),
    }
}

pub(crate) fn labels(pairs: &[KeyValue]) -> String {
    pairs.iter().map(|pair| format!("{}={}", pair.key, text(pair))).collect::<Vec<_>>().join(",")
}

/// All metrics of a message, by name. A duplicate name fails.
pub(crate) fn metrics(message: &ExportMetricsServiceRequest) -> BTreeMap<&str, &Metric> {
    let scopes = message.resource_metrics.iter().flat_map(|of| &of.scope_metrics);
    let mut all = BTreeMap::new();
    for metric in scopes.flat_map(|scope| &scope.metrics) {
        assert!(all.insert(metric.name.as_str(), metric).is_none(), "{} is a duplicate", metric.name);
    }
    all
}

/// Counters and gauges by name and labels, and histograms by their count.
pub(crate) fn numbers(message: &ExportMetricsServiceRequest) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    for (name, metric) in metrics(message) {
        let points = match metric.data.as_ref().unwrap() {
            Data::Sum(sum) => sum.data_points.clone(),
            Data::Gauge(gauge) => gauge.data_points.clone(),
            Data::Histogram(histogram) => {
                for point in &histogram.data_points {
                    #[expect(clippy::cast_precision_loss, reason = "small in tests")]
                    all.insert(format!("{name}{{{}}}", labels(&point.attributes)), point.count as f64);
                }
                continue;
            }
            other => panic!("{name} is {other:?}"),
        };
        for point in points {
            #[expect(clippy::cast_precision_loss, reason = "small in tests")]
            let number = match point.value.unwrap() {
                number_data_point::Value::AsInt(number) => number as f64,
                number_data_point::Value::AsDouble(number) => number,
            };
            let series = format!("{name}{{{}}}", labels(&point.attributes));
            assert!(all.insert(series.clone(), number).is_none(), "{series} is a duplicate");
        }
    }
    all
}

/// The value of one series, if it exists.
pub(crate) fn number(message: &ExportMetricsServiceRequest, series: &str) -> Option<f64> {
    numbers(message).get(series).copied()
}

/// One series of a histogram.
pub(crate) fn histogram<'m>(
    message: &'m ExportMetricsServiceRequest,
    name: &str,
    wanted: &str,
) -> &'m HistogramDataPoint {
    let Some(Data::Histogram(histogram)) = &metrics(message)[name].data else { panic!("{name} is none") };
    let found = histogram.data_points.iter().find(|point| labels(&point.attributes) == wanted);
    found.unwrap_or_else(|| panic!("no {wanted}"))
}
