//! Digest of simulated runs: a hash of every frame and decision in order. Two versions of the protocol that give the same
//! digests for the same seeds decide alike, bit for bit.

use hivemind_core::store::{Outcome, Verdicts};
use std::cell::Cell;

thread_local! {
    static DIGEST: Cell<u64> = const { Cell::new(0) };
}

fn add(number: u64) {
    DIGEST.with(|digest| {
        let mixed = (digest.get() ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        digest.set(mixed ^ (mixed >> 29));
    });
}

/// Adds numbers, and then bytes, to this thread's digest.
pub(super) fn record(numbers: &[u64], bytes: &[u8]) {
    numbers.iter().copied().for_each(add);
    add(bytes.len() as u64);
    for chunk in bytes.chunks(8) {
        add(chunk.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
    }
}

/// Adds a decision to this thread's digest.
pub(super) fn record_verdicts(numbers: &[u64], verdicts: &Verdicts) {
    record(numbers, &[u8::from(verdicts.committed)]);
    for verdict in verdicts.each() {
        let wait = match verdict.outcome {
            Outcome::Admitted => 0,
            Outcome::Refused { retry_after: None } => 1,
            Outcome::Refused { retry_after: Some(wait) } => {
                2 + u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX / 2)
            }
        };
        let reset = u64::try_from(verdict.reset_after.as_nanos()).unwrap_or(u64::MAX);
        record(&[wait, verdict.available, verdict.remaining, reset], &[]);
    }
}

/// Returns the digest of all runs of this thread since the previous call.
///
/// ```
/// use hivemind_core::{Limit, Period};
/// use hivemind_mesh_sim::{scenarios, take_digest};
///
/// let digest = || {
///     let _ = scenarios()[0].play(1, Limit::fixed_window(5, Period::SECOND), 1.5);
///     take_digest()
/// };
/// assert_eq!(digest(), digest());
/// ```
#[must_use]
pub fn take_digest() -> u64 {
    DIGEST.with(|digest| digest.replace(0))
}
