//! Tests of contexts, samplers and queues, and the cost of a request that is not sampled.

use super::context::{Parent, SpanId, TRACEPARENT, TRACESTATE, TraceId, state, traceparent};
use super::queue::{MOST, TraceReceiver};
use super::sampler::Sampler;
use super::{CounterStore, TraceMetrics, Tracer};
use crate::Frontend;
use crate::settings::otel::StatusOnLimit;
use hivemind_core::{Clock, MonotonicClock};
use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

fn tracer(rate: f64) -> (Arc<Tracer>, TraceReceiver, Arc<TraceMetrics>) {
    let metrics = Arc::<TraceMetrics>::default();
    let (tracer, receiver) =
        Tracer::new(rate, CounterStore::Memory, StatusOnLimit::Unset, Arc::clone(&metrics));
    (tracer, receiver, metrics)
}

fn with(lines: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    headers
}

// Fails when capital letters, version 00 with a suffix, or the version `ff` is accepted.
#[test]
fn parent_is_parsed_only_in_standard_form() {
    let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    for (text, sampled) in [
        (format!("00-{trace}-{span}-01"), Some(true)),
        (format!("00-{trace}-{span}-00"), Some(false)),
        (format!("00-{trace}-{span}-03"), Some(true)),
        (format!("00-{trace}-{span}-fe"), Some(false)),
        // An unknown later version has the same prefix.
        (format!("cc-{trace}-{span}-01"), Some(true)),
        (format!("cc-{trace}-{span}-01-what-the-future-brings"), Some(true)),
        (format!("cc-{trace}-{span}-01."), None),
        (format!("00-{trace}-{span}-01-"), None),
        (format!("ff-{trace}-{span}-01"), None),
        (format!("0-{trace}-{span}-01"), None),
        (format!("00-{trace}-{span}-0"), None),
        (format!("00-{trace}-{span}-0g"), None),
        (format!("00-{trace}-{span}-0A"), None),
        (format!("00-{}-{span}-01", trace.to_uppercase()), None),
        (format!("00-{trace}-{}-01", span.to_uppercase()), None),
        (format!("00-{}-{span}-01", "0".repeat(32)), None),
        (format!("00-{trace}-{}-01", "0".repeat(16)), None),
        (format!("00_{trace}-{span}-01"), None),
        (format!("00-{trace}_{span}-01"), None),
        (format!(" 00-{trace}-{span}-01"), None),
        (String::new(), None),
    ] {
        let parent = Parent::read(text.as_bytes());
        assert_eq!(parent.map(|parent| parent.is_sampled), sampled, "{text}");
        let name = parent.map(|parent| format!("{}-{}", parent.trace, parent.span));
        assert_eq!(name, sampled.map(|_| format!("{trace}-{span}")), "{text}");
    }
}

// Fails when the first of two lines is used.
#[test]
fn of_two_parents_none_is_taken() {
    assert!(Parent::of(&with(&[("traceparent", SAMPLED)])).is_some());
    assert_eq!(Parent::of(&with(&[("traceparent", SAMPLED), ("traceparent", SAMPLED)])), None);
    assert_eq!(Parent::of(&HeaderMap::new()), None);
}

// Fails without the bound of its length, or of its members.
#[test]
fn valid_short_tracestate_is_passed_on() {
    let member = |name: usize| format!("k{name:02}=v");
    let members = |count| (0..count).map(member).collect::<Vec<_>>().join(",");
    for (lines, expected) in [
        (vec![], None),
        (vec![""], None),
        (vec![" , "], None),
        (vec!["a=1"], Some("a=1")),
        (vec!["a=1", "b=2"], Some("a=1,b=2")),
        (vec!["a=1 , b=2,"], Some("a=1 , b=2,")),
        (vec!["fw529a3039@dt=FfAz/_*-"], Some("fw529a3039@dt=FfAz/_*-")),
        (vec!["A=1"], None),
        (vec!["a"], None),
        (vec!["a="], None),
        (vec!["a=1=2"], None),
        (vec!["=1"], None),
        (vec!["@a=1"], None),
        (vec!["a=1,b\tc=2"], None),
        (vec![members(32).as_str()], Some(members(32).as_str())),
        (vec![members(33).as_str()], None),
        (vec![format!("a={}", "x".repeat(256)).as_str()], Some(format!("a={}", "x".repeat(256)).as_str())),
        (vec![format!("a={}", "x".repeat(257)).as_str()], None),
        (vec![format!("a={0},b={0},c={0}", "x".repeat(200)).as_str()], None),
    ] {
        let lines: Vec<(&str, &str)> = lines.into_iter().map(|line| ("tracestate", line)).collect();
        assert_eq!(state(&with(&lines)).as_deref(), expected, "{lines:?}");
    }
}

proptest! {
    // Fails with an index past the end of a short text, or with letters past `f`.
    #[test]
    fn parser_accepts_any_bytes_without_panic(
        bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..80),
            // One byte differs from a valid text.
            (0..55_usize, any::<u8>()).prop_map(|(at, byte)| {
                let mut bytes = SAMPLED.as_bytes().to_vec();
                bytes[at] = byte;
                bytes
            }),
        ],
        state_bytes in proptest::collection::vec(any::<u8>(), 0..600),
    ) {
        if let Some(parent) = Parent::read(&bytes) {
            // The parsed text equals the written one.
            let names = format!("-{}-{}-", parent.trace, parent.span);
            prop_assert_eq!(&bytes[2..53], names.as_bytes());
        }
        if let Ok(value) = HeaderValue::from_bytes(&state_bytes) {
            let headers = HeaderMap::from_iter([(TRACESTATE, value)]);
            prop_assert!(state(&headers).is_none_or(|state| state.len() < 512));
        }
    }

    // Fails when leading zeros of IDs are dropped.
    #[test]
    fn written_parent_is_parsed_back(trace in 1..=u128::MAX, small in 1..=u128::from(u16::MAX), span in 1..=u64::MAX) {
        for trace in [trace, small] {
            let (trace, span) = (TraceId::new(trace).unwrap(), SpanId::new(span).unwrap());
            let headers = HeaderMap::from_iter([(TRACEPARENT, traceparent(trace, span).unwrap())]);
            prop_assert_eq!(Parent::of(&headers), Some(Parent { trace, span, is_sampled: true }));
        }
    }

    // Fails when the upper half of the ID is used, or when a rate of 1 omits a trace.
    #[test]
    fn sampler_uses_lower_half_and_larger_rates_include_smaller(
        high in any::<u64>(),
        low in prop_oneof![Just(0), Just(u64::MAX), any::<u64>()],
        rates in (0.0..=1.0_f64, 0.0..=1.0_f64),
    ) {
        let id = |high: u64| TraceId::new(u128::from(high) << 64 | u128::from(low));
        let Some(trace) = id(high | 1) else { return Ok(()) };
        prop_assert!(Sampler::new(1.0).is_sampled(trace));
        prop_assert!(!Sampler::new(0.0).is_sampled(trace));
        let (less, more) = (rates.0.min(rates.1), rates.0.max(rates.1));
        prop_assert!(!Sampler::new(less).is_sampled(trace) || Sampler::new(more).is_sampled(trace));
        prop_assert_eq!(Sampler::new(less).is_sampled(trace), Sampler::new(less).is_sampled(id(!high | 1).unwrap()));
    }
}

// Fails when the rate applies to a trace with a parent.
#[test]
fn parent_decides_sampling_of_children() {
    for rate in [0.0, 0.5, 1.0] {
        let sampler = Sampler::new(rate);
        let (followed, left) = (Parent::read(SAMPLED.as_bytes()), Parent::read(UNSAMPLED.as_bytes()));
        assert_eq!(sampler.sample(followed.as_ref()), followed.map(|parent| parent.trace));
        assert_eq!(sampler.sample(left.as_ref()), None);
    }
    assert_eq!(Sampler::new(0.0).sample(None), None);
    assert!(Sampler::new(1.0).sample(None).is_some());
}

// Fails when the rate is ignored.
#[test]
fn sampled_share_equals_rate_over_many_traces() {
    for (rate, between) in [(0.25, 2_200..2_800), (0.01, 60..150)] {
        let sampler = Sampler::new(rate);
        let followed = (0..10_000).filter(|_| sampler.sample(None).is_some()).count();
        assert!(between.contains(&followed), "{followed} of 10000 at {rate}");
    }
}

// Fails with a queue of twice the length, or when drops are not counted.
#[test]
fn full_queue_drops_and_counts_and_keeps_queued_entries() {
    let (tracer, mut receiver, metrics) = tracer(1.0);
    for _ in 0..MOST + 7 {
        drop(tracer.start_span(&HeaderMap::new(), Frontend::Grpc));
    }
    assert_eq!(metrics.queue_full.load(Ordering::Relaxed), 7);
    assert_eq!(std::iter::from_fn(|| receiver.take()).count(), MOST);
    drop(tracer.start_span(&HeaderMap::new(), Frontend::Grpc));
    assert!(receiver.take().is_some(), "there is room again");
}

// Fails when the exporter is not woken.
#[tokio::test(start_paused = true)]
async fn exporter_is_woken_when_queue_is_half_full() {
    let (tracer, _outlet, _) = tracer(1.0);
    let mut queued = 0;
    while tokio::time::timeout(std::time::Duration::from_secs(1), tracer.queue.half_full()).await.is_err() {
        drop(tracer.start_span(&HeaderMap::new(), Frontend::Grpc));
        queued += 1;
        assert!(queued <= MOST / 2, "the exporter is not woken");
    }
    assert_eq!(queued, MOST / 2);
}

/// Headers as Envoy sends them.
fn of_envoy(traceparent: Option<&str>) -> HeaderMap {
    let mut headers = with(&[
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        ("grpc-timeout", "20m"),
        ("user-agent", "grpc-c++/1.71.0"),
        ("x-envoy-internal", "true"),
        ("x-forwarded-for", "192.0.2.1"),
        ("x-envoy-expected-rq-timeout-ms", "20"),
    ]);
    headers.extend(traceparent.map(|parent| (TRACEPARENT, HeaderValue::from_str(parent).unwrap())));
    headers
}

/// Cost of a request in nanoseconds: the best of several rounds, because other processes share the machine.
fn cost(tracer: Option<&Arc<Tracer>>, headers: &HeaderMap) -> f64 {
    // Short rounds: most end before another process gets the processor.
    let (rounds, times) = (if cfg!(debug_assertions) { 10 } else { 5_000 }, 500);
    let round = |_| {
        let from = MonotonicClock.now();
        for _ in 0..times {
            let tracer = black_box(tracer);
            let check = tracer.and_then(|tracer| tracer.start_span(black_box(headers), Frontend::Grpc));
            assert!(black_box(check).is_none());
        }
        MonotonicClock.now().since(from).as_secs_f64() * 1e9 / f64::from(times)
    };
    (0..rounds).map(round).fold(f64::INFINITY, f64::min)
}

// Run by `cargo test --release -p hivemind-rl-telemetry --lib unsampled -- --nocapture`; docs/decisions/018 has the results.
// In other builds the time is not that of the product, and only the allocations are checked.
// Fails when a span begins before the sampling is decided.
#[test]
fn unsampled_request_costs_under_100_ns_without_allocation() {
    let (tracer, _outlet, _) = tracer(0.0);
    for (name, tracer, headers) in [
        ("no tracing", None, of_envoy(None)),
        ("no parent", Some(&tracer), of_envoy(None)),
        ("an unsampled parent", Some(&tracer), of_envoy(Some(UNSAMPLED))),
        ("no parent that can be read", Some(&tracer), of_envoy(Some("00-hello"))),
    ] {
        let nanos = cost(tracer, &headers);
        println!("{name}: {nanos:.1} ns");
        assert!(cfg!(debug_assertions) || nanos < 100.0, "{name}: {nanos:.1} ns");
        let allocated = allocation_counter::measure(|| {
            let check = tracer.and_then(|tracer| tracer.start_span(&headers, Frontend::Grpc));
            assert!(check.is_none());
        });
        assert_eq!(allocated.count_total, 0, "{name}");
    }
}
