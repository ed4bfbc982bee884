//! Sends what is followed to a receiver: once a second, sooner where much has come, and at the end. One message is held
//! at a time; while a receiver does not take it the queue fills, and what finds no room there is lost and counted.

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
/// The most checks in one message; with all that each may say it stays below what receivers take.
const MOST: usize = 256;
/// So often a message is sent; whoever does not take it by then will not.
const MOST_TRIES: u32 = 5;

/// Sends what is followed.
pub struct Exporter {
    tracer: Arc<Tracer>,
    receiver: TraceReceiver,
    sender: Sender,
    resource: Arc<Resource>,
    held: Option<Batch>,
}

/// What is sent together.
struct Batch {
    message: ExportTraceServiceRequest,
    /// How many were told by it.
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

    /// Sends until it is told to stop, and then what is left.
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
                // Once more, in case it is back.
                return self.empty().await;
            }
        }
    }

    /// Sends all that has come, unless it is not taken.
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
            && let Some(told) = self.receiver.take()
        {
            count += 1;
            match told {
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
