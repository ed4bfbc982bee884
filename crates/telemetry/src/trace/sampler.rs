//! Which traces are followed. Whoever begins one decides it for all that comes of it: a parent that is followed is
//! followed here, too, and one that is not is not. What begins here is chosen by its name, as the SDKs of
//! OpenTelemetry choose it, so that all who hold to one rate choose the same.

use super::context::{Parent, TraceId};

/// Which traces are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sampler {
    /// Of the 63 bits that are looked at, all below this.
    below: u64,
}

impl Sampler {
    /// This share of all traces, from 0 to 1.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of 2^63, which is what a float can say"
    )]
    pub(super) fn new(rate: f64) -> Self {
        Self { below: (rate.clamp(0.0, 1.0) * (1_u64 << 63) as f64) as u64 }
    }

    /// Whether a trace of this name that begins here is followed.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "it looks at the lower half")]
    pub(super) fn is_sampled(self, trace: TraceId) -> bool {
        (trace.bits() as u64) >> 1 < self.below
    }

    /// The trace that a request belongs to, if it is followed.
    #[inline]
    pub(super) fn sample(self, parent: Option<&Parent>) -> Option<TraceId> {
        match parent {
            Some(parent) => parent.is_sampled.then_some(parent.trace),
            None => Some(TraceId::random()).filter(|trace| self.is_sampled(*trace)),
        }
    }
}
