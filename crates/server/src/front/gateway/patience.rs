//! How long something may be silent. The timer is made when there is first something to wait for, so
//! that what is there at once, as most bodies are, sets none.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Interval, interval};

/// Runs out when nothing came for a while.
pub(super) struct Patience {
    span: Duration,
    timer: Option<Pin<Box<Interval>>>,
}

impl Patience {
    pub(super) const fn new(span: Duration) -> Self {
        Self { span, timer: None }
    }

    /// Asked while nothing comes: ready once that took too long.
    pub(super) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| {
            let mut timer = Box::pin(interval(self.span));
            timer.reset(); // The first tick of an interval is at once.
            timer
        });
        timer.poll_tick(cx).map(drop)
    }

    /// Something came.
    pub(super) fn renew(&mut self) {
        if let Some(timer) = &mut self.timer {
            timer.reset();
        }
    }
}
