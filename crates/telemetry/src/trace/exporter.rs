//! Trace exporter: sends spans to a receiver once a second, sooner when many are queued, and at the end. It holds one
//! message at a time; while the receiver fails, the queue fills, and spans that do not fit are dropped and counted.

use super::otlp;
use super::queue::{TraceItem, TraceReceiver};
use super::span::Span;
use super::tracer::Tracer;
use crate::otlp::Sender;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::resource::v1::Resource;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};

const EVERY: Duration = Duration::from_secs(1);
/// Most checks in one message; the maximum size stays below the limits of receivers.
const MOST: usize = 256;
/// Attempts to send a message before it is dropped.
const MOST_TRIES: u32 = 5;

/// Sends spans.
pub struct Exporter {
    tracer: Arc<Tracer>,
    receiver: TraceReceiver,
    sender: Sender,
    resource: Arc<Resource>,
    held: Option<Batch>,
}

/// Spans of one message.
struct Batch {
    message: ExportTraceServiceRequest,
    /// Number of queue entries in it.
    count: usize,
    tries: u32,
}

impl Exporter {
    pub fn new(
        tracer: Arc<Tracer>,
        receiver: TraceReceiver,
        sender: Sender,
        resource: Arc<Resource>,
    ) -> Self {
        Self { tracer, receiver, sender, resource, held: None }
    }

    /// Sends until it is stopped, and then the rest.
    pub async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let is_over = tokio::select! { biased;
                _ = stopped.wait_for(|stopped| *stopped) => true,
                () = self.tracer.queue.half_full() => false,
                _ = ticks.tick() => false,
            };
            self.empty().await;
            if is_over {
                return;
            }
            let pause = self.sender.pause();
            if !pause.is_zero() && timeout(pause, stopped.wait_for(|stopped| *stopped)).await.is_ok() {
                // One more attempt, in case the receiver has recovered.
                return self.empty().await;
            }
        }
    }

    /// Sends all queued spans, unless the receiver fails.
    async fn empty(&mut self) {
        while let Some(batch) = self.held.take().or_else(|| self.gather()) {
            let Batch { message, count, tries } = batch;
            let Err(error) = self.sender.send(&message).await else { continue };
            if error.is_retryable && tries + 1 < MOST_TRIES {
                self.held = Some(Batch { message, count, tries: tries + 1 });
            } else {
                self.tracer.queue.lost(count);
            }
            return;
        }
    }

    fn gather(&mut self) -> Option<Batch> {
        let (mut spans, mut count) = (Vec::<Span>::new(), 0);
        while count < MOST
            && let Some(item) = self.receiver.take()
        {
            count += 1;
            match item {
                TraceItem::Decision(record) => {
                    record.into_spans(self.tracer.store, self.tracer.on_limit, &mut spans);
                }
                TraceItem::Span(span) => spans.push(*span),
            }
        }
        let message = otlp::request(&self.resource, spans);
        (count > 0).then_some(Batch { message, count, tries: 0 })
    }
}
