//! Clocks of a measurement, read through rustix to avoid `unsafe`.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// CPU time of this thread.
#[must_use]
pub fn thread_cpu() -> Duration {
    read(ClockId::ThreadCPUTime)
}

/// Monotonic time, for waits as a caller sees them.
#[must_use]
pub fn monotonic() -> Duration {
    read(ClockId::Monotonic)
}

fn read(clock: ClockId) -> Duration {
    let at = clock_gettime(clock);
    Duration::new(at.tv_sec.cast_unsigned(), u32::try_from(at.tv_nsec).unwrap_or(0))
}

/// CPU nanoseconds per call of `count` calls.
pub fn nanos_each(count: usize, run: impl FnOnce()) -> f64 {
    let before = thread_cpu();
    run();
    (thread_cpu() - before).as_nanos() as f64 / count as f64
}
