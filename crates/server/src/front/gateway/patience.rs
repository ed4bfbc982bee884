//! How long something may be silent. The timer is made when there is first something to wait for, so
//! that what is there at once, as most bodies are, sets none; and it runs only while somebody waits: who
//! takes slowly what is there has not been kept waiting.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Interval, interval};

/// Runs out when nothing came for a while.
pub(super) struct Patience {
    span: Duration,
    timer: Option<Pin<Box<Interval>>>,
    /// While it is waited for: what had moved elsewhere when the timer was set.
    waits: Option<u32>,
}

impl Patience {
    pub(super) const fn new(span: Duration) -> Self {
        Self { span, timer: None, waits: None }
    }

    /// Asked while nothing comes: ready once that took too long. What moves elsewhere, as the other way of
    /// the same exchange does, sets the timer anew when it has run out: two silent for so long have been so
    /// for once to twice the span.
    pub(super) fn poll_end(&mut self, cx: &mut Context<'_>, moves: u32) -> Poll<()> {
        let timer = self.timer.get_or_insert_with(|| Box::pin(interval(self.span)));
        if self.waits.is_none() {
            self.waits = Some(moves);
            timer.reset(); // The first tick of an interval is at once, the next after a pause too early.
        }
        loop {
            ready!(timer.poll_tick(cx));
            if self.waits.replace(moves) == Some(moves) {
                return Poll::Ready(());
            }
            timer.reset();
        }
    }

    /// Something came.
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

    async fn ends_within(patience: &mut Patience, span: Duration, moves: u32) -> bool {
        timeout(span, poll_fn(|cx| patience.poll_end(cx, moves))).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn it_does_not_run_while_nobody_asks() {
        let mut patience = Patience::new(SPAN);
        assert!(!ends_within(&mut patience, SPAN / 2, 0).await);
        patience.renew();
        passes(SPAN * 2).await;
        assert!(!ends_within(&mut patience, SPAN.saturating_sub(Duration::from_secs(1)), 0).await);
        assert!(ends_within(&mut patience, Duration::from_secs(2), 0).await);
    }

    #[tokio::test(start_paused = true)]
    async fn what_moves_elsewhere_is_not_silence() {
        let mut patience = Patience::new(SPAN);
        assert!(!ends_within(&mut patience, SPAN / 2, 0).await);
        for moves in 1..10 {
            assert!(!ends_within(&mut patience, SPAN, moves).await, "after {moves}");
        }
        assert!(ends_within(&mut patience, SPAN, 9).await);
    }
}
