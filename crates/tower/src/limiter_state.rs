//! Limiter state: active limits, counters, clock and log, shared by a limiter, its decisions and its
//! WebSocket connections.

use crate::active_limits::ActiveLimits;
use crate::backend::{Backend, VerdictsFuture};
use crate::header_format::HeaderFormat;
use crate::refusal_log::RefusalLog;
use arc_swap::ArcSwap;
use hivemind_core::store::{Context, StoreError, Verdicts};
use hivemind_core::{Clock, Timestamp};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

pub(crate) type Sleeper = Box<dyn Fn(Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

pub(crate) struct LimiterState {
    /// Swapped as one value by a reload; everything else is fixed.
    pub(crate) limits: ArcSwap<ActiveLimits>,
    pub(crate) backend: Box<dyn Backend>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) headers: HeaderFormat,
    pub(crate) log: Arc<RefusalLog>,
    pub(crate) store_timeout: Duration,
    pub(crate) sleeper: Sleeper,
}

impl LimiterState {
    pub(crate) async fn pause(&self, delay: Duration) {
        if !delay.is_zero() {
            (self.sleeper)(delay).await;
        }
    }

    /// The context of a decision at `now`, with the store timeout as its deadline.
    pub(crate) fn context(&self, now: Timestamp) -> Context {
        Context { deadline: Some(now.saturating_add(self.store_timeout)), ..Context::at(now) }
    }

    /// Awaits the verdicts of a store, at most for the store timeout.
    pub(crate) async fn await_verdicts(&self, mut verdicts: VerdictsFuture) -> Result<Verdicts, StoreError> {
        let mut timer = None;
        std::future::poll_fn(|cx| {
            if let Poll::Ready(verdicts) = verdicts.as_mut().poll(cx) {
                return Poll::Ready(verdicts);
            }
            // The timer is created only if the store does not decide immediately.
            let timer = timer.get_or_insert_with(|| (self.sleeper)(self.store_timeout));
            timer.as_mut().poll(cx).map(|()| Err(StoreError::DeadlinePassed))
        })
        .await
    }
}
