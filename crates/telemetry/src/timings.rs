//! Response times. One histogram has the bucket bounds of both exported ones: that of the reference service in seconds,
//! and our own in milliseconds. A duration is counted once, in the bucket between two bounds.

use super::family::{Histogram, as_level};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// All bounds in microseconds.
const EDGES_US: [u64; 11] = [10, 50, 100, 500, 1_000, 2_000, 5_000, 10_000, 25_000, 50_000, 100_000];
/// Bounds of the reference histogram, which has them in seconds.
const OF_REFERENCE_US: [u64; 9] = [10, 50, 100, 500, 1_000, 5_000, 10_000, 50_000, 100_000];
/// Bounds of our histogram, which has them in milliseconds.
const OF_DESIGN_US: [u64; 9] = [100, 500, 1_000, 2_000, 5_000, 10_000, 25_000, 50_000, 100_000];

/// Response times of one kind.
#[derive(Debug, Default)]
pub struct Timings {
    /// By bound, and one bucket for longer times.
    buckets: [AtomicU64; EDGES_US.len() + 1],
    sum_ns: AtomicU64,
}

impl Timings {
    pub fn observe(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = EDGES_US.iter().position(|edge| nanos <= edge * 1_000).unwrap_or(EDGES_US.len());
        if let Some(count) = self.buckets.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        // A clock change may give a huge duration, and the sum must not overflow.
        self.sum_ns.fetch_add(nanos.min(1 << 40), Ordering::Relaxed);
    }

    /// Adds the counts of another one that is dropped afterwards.
    pub(super) fn absorb(&self, other: &Self) {
        for (mine, other) in self.buckets.iter().zip(&other.buckets) {
            mine.fetch_add(other.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.sum_ns.fetch_add(other.sum_ns.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    pub(super) fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).sum()
    }

    /// Count of each bucket; not cumulative.
    pub(super) fn counts(&self) -> [u64; EDGES_US.len() + 1] {
        self.buckets.each_ref().map(|bucket| bucket.load(Ordering::Relaxed))
    }

    /// The upper bounds of all buckets except the last, in milliseconds.
    pub(super) fn edges_ms() -> [f64; EDGES_US.len()] {
        EDGES_US.map(|edge| as_level(edge) / 1_000.0)
    }

    /// The quantile of this share in milliseconds, interpolated within its bucket. `None` without counts; longer times are
    /// reported as the last bound.
    pub(super) fn quantile_ms(&self, share: f64) -> Option<f64> {
        let counts = self.counts();
        let rank = as_level(counts.iter().sum::<u64>()) * share;
        let (mut below, mut lower) = (0.0, 0.0);
        for (upper, count) in Self::edges_ms().into_iter().zip(counts) {
            let within = as_level(count);
            if count > 0 && below + within >= rank {
                return Some(lower + (upper - lower) * ((rank - below) / within));
            }
            (below, lower) = (below + within, upper);
        }
        counts.iter().any(|count| *count > 0).then_some(lower)
    }

    /// The histogram of the reference service, in seconds.
    pub(super) fn in_seconds(&self) -> Histogram {
        self.histogram(&OF_REFERENCE_US, 1_000_000.0)
    }

    /// Our histogram, in milliseconds.
    pub(super) fn in_millis(&self) -> Histogram {
        self.histogram(&OF_DESIGN_US, 1_000.0)
    }

    /// A histogram with a subset of the bounds, in a unit of `micros` microseconds.
    fn histogram(&self, edges: &[u64], of_unit: f64) -> Histogram {
        let mut buckets = vec![0; edges.len() + 1];
        let upper = EDGES_US.iter().copied().chain([u64::MAX]);
        for (upper, count) in upper.zip(&self.buckets) {
            let place = edges.iter().position(|edge| upper <= *edge).unwrap_or(edges.len());
            if let Some(bucket) = buckets.get_mut(place) {
                *bucket += count.load(Ordering::Relaxed);
            }
        }
        let sum = as_level(self.sum_ns.load(Ordering::Relaxed)) / (1_000.0 * of_unit);
        Histogram { edges: edges.iter().map(|edge| as_level(*edge) / of_unit).collect(), buckets, sum }
    }
}

#[cfg(test)]
mod tests {
    use super::Timings;
    use std::time::Duration;

    // Fails for `<` instead of `<=` at a bound, and when our first bucket lacks those of 10 µs and 50 µs.
    #[test]
    fn duration_at_bound_is_in_its_bucket_in_both_histograms() {
        for (micros, of_reference, of_design) in [
            (1, 0, 0),
            (10, 0, 0),
            (11, 1, 0),
            (100, 2, 0),
            (101, 3, 1),
            (1_500, 5, 3),
            (30_000, 7, 7),
            (200_000, 9, 9),
        ] {
            let timings = Timings::default();
            timings.observe(Duration::from_micros(micros));
            let (seconds, millis) = (timings.in_seconds(), timings.in_millis());
            assert_eq!(
                seconds.buckets.iter().position(|count| *count == 1),
                Some(of_reference),
                "{micros} µs"
            );
            assert_eq!(millis.buckets.iter().position(|count| *count == 1), Some(of_design), "{micros} µs");
            assert_eq!((seconds.count(), millis.count(), timings.count()), (1, 1, 1));
            let expected = Duration::from_micros(micros).as_secs_f64();
            assert!((seconds.sum - expected).abs() < 1e-9 && (millis.sum - expected * 1e3).abs() < 1e-6);
        }
    }

    #[test]
    fn quantile_is_in_bucket_of_its_rank() {
        let timings = Timings::default();
        assert_eq!(timings.quantile_ms(0.5), None);
        for micros in std::iter::repeat_n(20, 90).chain(std::iter::repeat_n(3_000, 10)) {
            timings.observe(Duration::from_micros(micros));
        }
        for (share, expected) in [(0.5, 0.032_2), (0.9, 0.05), (0.95, 3.5), (1.0, 5.0)] {
            let found = timings.quantile_ms(share).unwrap();
            assert!((found - expected).abs() < 0.001, "{share}: {found}");
        }
        timings.observe(Duration::from_secs(3));
        assert_eq!(timings.quantile_ms(1.0), Some(100.0));
    }

    #[test]
    fn histogram_bounds_equal_documented_ones() {
        assert_eq!(Timings::default().in_millis().edges, [0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0]);
    }
}
