//! The two clocks of a measurement, read through rustix because it needs no `unsafe` here.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// CPU time this thread has had.
#[must_use]
pub fn thread_cpu() -> Duration {
    read(ClockId::ThreadCPUTime)
}

/// Time that only goes forward, for pauses as a caller feels them.
#[must_use]
pub fn monotonic() -> Duration {
    read(ClockId::Monotonic)
}

fn read(clock: ClockId) -> Duration {
    let at = clock_gettime(clock);
    Duration::new(at.tv_sec.cast_unsigned(), u32::try_from(at.tv_nsec).unwrap_or(0))
}

/// Nanoseconds of CPU that each of `count` calls took.
pub fn nanos_each(count: usize, run: impl FnOnce()) -> f64 {
    let before = thread_cpu();
    run();
    (thread_cpu() - before).as_nanos() as f64 / count as f64
}
