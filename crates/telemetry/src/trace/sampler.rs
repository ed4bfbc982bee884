//! Sampler: which traces are recorded. The decision of a parent applies to all its children. New traces are sampled by
//! their ID, as in the SDKs of OpenTelemetry, so that all processes with the same rate choose the same traces.

use super::context::{Parent, TraceId};

/// Decides which traces are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sampler {
    /// Upper bound of the 63 examined bits of a sampled ID.
    below: u64,
}

impl Sampler {
    /// Samples this share of all traces, from 0 to 1.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of 2^63, which is what a float can say"
    )]
    pub(super) fn new(rate: f64) -> Self {
        Self { below: (rate.clamp(0.0, 1.0) * (1_u64 << 63) as f64) as u64 }
    }

    /// Whether a new trace with this ID is sampled.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "it looks at the lower half")]
    pub(super) fn is_sampled(self, trace: TraceId) -> bool {
        (trace.bits() as u64) >> 1 < self.below
    }

    /// The trace of a request, if it is sampled.
    #[inline]
    pub(super) fn sample(self, parent: Option<&Parent>) -> Option<TraceId> {
        match parent {
            Some(parent) => parent.is_sampled.then_some(parent.trace),
            None => Some(TraceId::random()).filter(|trace| self.is_sampled(*trace)),
        }
    }
}
