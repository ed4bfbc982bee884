//! Metric families as an OTLP message. Counters are cumulative, with the start of their count, so the next message
//! replaces a lost one.

use crate::family::{Family, MetricType, MetricValue, Series};
use crate::otlp::attribute;
use hivemind_core::Timestamp;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, ResourceMetrics,
    ScopeMetrics, Sum, metric::Data, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;

/// Start and end of a count.
#[derive(Clone, Copy)]
struct CountingPeriod {
    started: Timestamp,
    now: Timestamp,
}

/// All families whose labels contain no text of requests.
pub(super) fn message(
    families: &[Family],
    resource: &Resource,
    started: Timestamp,
    now: Timestamp,
) -> ExportMetricsServiceRequest {
    let span = CountingPeriod { started, now };
    let exported = families.iter().filter(|family| !family.is_of_requests && !family.series.is_empty());
    let scope = InstrumentationScope {
        name: "hivemind".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        ..InstrumentationScope::default()
    };
    let of_scope = ScopeMetrics {
        scope: Some(scope),
        metrics: exported.map(|family| metric(family, span)).collect(),
        ..ScopeMetrics::default()
    };
    let of_resource = ResourceMetrics {
        resource: Some(resource.clone()),
        scope_metrics: vec![of_scope],
        ..ResourceMetrics::default()
    };
    ExportMetricsServiceRequest { resource_metrics: vec![of_resource] }
}

fn metric(family: &Family, span: CountingPeriod) -> Metric {
    let aggregation_temporality = AggregationTemporality::Cumulative.into();
    let numbers = || family.series.iter().filter_map(|series| number(series, span)).collect();
    let data = match family.kind {
        MetricType::Counter => {
            Data::Sum(Sum { data_points: numbers(), aggregation_temporality, is_monotonic: true })
        }
        MetricType::Gauge => Data::Gauge(Gauge { data_points: numbers() }),
        MetricType::Histogram => {
            let data_points = family.series.iter().filter_map(|series| histogram(series, span)).collect();
            Data::Histogram(Histogram { data_points, aggregation_temporality })
        }
    };
    Metric {
        name: family.name.clone(),
        description: family.help.to_owned(),
        unit: family.unit.to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

fn number(series: &Series, span: CountingPeriod) -> Option<NumberDataPoint> {
    let (value, start_time_unix_nano) = match &series.value {
        MetricValue::Count(count) => {
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            (number_data_point::Value::AsInt(count), began(series, span))
        }
        // A gauge has only its present value.
        MetricValue::Level(level) => (number_data_point::Value::AsDouble(*level), 0),
        MetricValue::Histogram(_) => return None,
    };
    Some(NumberDataPoint {
        attributes: attributes(series),
        start_time_unix_nano,
        time_unix_nano: span.now.as_nanos(),
        value: Some(value),
        ..NumberDataPoint::default()
    })
}

fn histogram(series: &Series, span: CountingPeriod) -> Option<HistogramDataPoint> {
    let MetricValue::Histogram(histogram) = &series.value else { return None };
    Some(HistogramDataPoint {
        attributes: attributes(series),
        start_time_unix_nano: began(series, span),
        time_unix_nano: span.now.as_nanos(),
        count: histogram.count(),
        sum: Some(histogram.sum),
        bucket_counts: histogram.buckets.clone(),
        explicit_bounds: histogram.edges.clone(),
        ..HistogramDataPoint::default()
    })
}

fn began(series: &Series, span: CountingPeriod) -> u64 {
    // After a clock was set back, the start is at most the present time.
    series.since.unwrap_or(span.started).min(span.now).as_nanos()
}

fn attributes(series: &Series) -> Vec<KeyValue> {
    series.labels.iter().map(|(name, text)| attribute(name, text.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::{Data, message};
    use crate::mesh_metrics::{Latencies, MeshMetrics, PeerMetrics};
    use hivemind_core::Timestamp;
    use opentelemetry_proto::tonic::resource::v1::Resource;

    #[test]
    fn mesh_metrics_are_exported_under_documented_names() {
        let latencies = Latencies { buckets: [1; 9], count: 10, sum_us: 1_500 };
        let peer = PeerMetrics {
            name: "node-2".into(),
            state: "alive",
            bytes_sent: 7,
            latencies,
            ..PeerMetrics::default()
        };
        let metrics = MeshMetrics { peers: vec![peer], ..MeshMetrics::default() };
        let (started, now) = (Timestamp::from_millis(1), Timestamp::from_millis(2));
        let sent = message(&metrics.families(), &Resource::default(), started, now);
        let metrics = &sent.resource_metrics[0].scope_metrics[0].metrics;
        let shown: Vec<String> = metrics
            .iter()
            .filter(|metric| metric.name.starts_with("ratelimit."))
            .map(|metric| {
                let attributes = match metric.data.as_ref().unwrap() {
                    Data::Gauge(gauge) => &gauge.data_points[0].attributes,
                    Data::Sum(sum) => {
                        assert_eq!(sum.data_points[0].start_time_unix_nano, started.as_nanos());
                        &sum.data_points[0].attributes
                    }
                    Data::Histogram(histogram) => {
                        let point = &histogram.data_points[0];
                        assert_eq!((point.count, point.bucket_counts.len(), point.sum), (10, 10, Some(1.5)));
                        &point.attributes
                    }
                    other => panic!("{other:?}"),
                };
                let keys: Vec<&str> = attributes.iter().map(|pair| pair.key.as_str()).collect();
                format!("{} {} {}", metric.name, metric.unit, keys.join(","))
            })
            .collect();
        assert_eq!(
            shown,
            [
                "ratelimit.mesh.peers.active  ",
                "ratelimit.mesh.bytes_sent.total By peer_id",
                "ratelimit.mesh.bytes_received.total By peer_id",
                "ratelimit.mesh.state_updates.total  operation,peer_id",
                "ratelimit.mesh.sync.latency ms operation,peer_id",
            ]
        );
    }
}
