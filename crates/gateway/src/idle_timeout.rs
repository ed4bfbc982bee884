//! Idle timeout. The timer is created on the first wait, so that bodies that are available immediately, as most are,
//! need none; and it runs only while someone waits: time in which the reader is slow does not count.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Interval, interval};

/// Expires when nothing has arrived for a while.
pub(super) struct IdleTimeout {
    span: Duration,
    timer: Option<Pin<Box<Interval>>>,
    /// While waiting: the progress counter when the timer was set.
    waits: Option<u32>,
}

impl IdleTimeout {
    pub(super) const fn new(span: Duration) -> Self {
        Self { span, timer: None, waits: None }
    }

    /// Polled while nothing arrives; ready after the timeout. Progress elsewhere, for example in the other direction
    /// of the exchange, restarts the timer when it expires: so two idle directions time out after one to two
    /// timeouts.
    pub(super) fn poll_end(&mut self, cx: &mut Context<'_>, moves: u32) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(interval(self.span)));
        if self.waits.is_none() {
            self.waits = Some(moves);
            timer.reset(); // Skip the immediate first tick, and the early one after a pause.
        }
        loop {
            ready!(timer.poll_tick(cx));
            if self.waits.replace(moves) == Some(moves) {
                return Poll::Ready(());
            }
            timer.reset();
        }
    }

    /// Records an arrival.
    pub(super) const fn renew(&mut self) {
        self.waits = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, poll_fn};
    use tokio::time::timeout;

    const SPAN: Duration = Duration::from_secs(60);

    async fn passes(span: Duration) {
        let _ = timeout(span, pending::<()>()).await;
    }

    async fn ends_within(idle_timeout: &mut IdleTimeout, span: Duration, moves: u32) -> bool {
        timeout(span, poll_fn(|cx| idle_timeout.poll_end(cx, moves))).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn idle_timeout_runs_only_while_polled() {
        let mut idle_timeout = IdleTimeout::new(SPAN);
        assert!(!ends_within(&mut idle_timeout, SPAN / 2, 0).await);
        idle_timeout.renew();
        passes(SPAN * 2).await;
        assert!(!ends_within(&mut idle_timeout, SPAN.saturating_sub(Duration::from_secs(1)), 0).await);
        assert!(ends_within(&mut idle_timeout, Duration::from_secs(2), 0).await);
    }

    #[tokio::test(start_paused = true)]
    async fn progress_elsewhere_restarts_the_idle_timeout() {
        let mut idle_timeout = IdleTimeout::new(SPAN);
        assert!(!ends_within(&mut idle_timeout, SPAN / 2, 0).await);
        for moves in 1..10 {
            assert!(!ends_within(&mut idle_timeout, SPAN, moves).await, "after {moves}");
        }
        assert!(ends_within(&mut idle_timeout, SPAN, 9).await);
    }
}
