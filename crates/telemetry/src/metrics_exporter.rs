//! Metrics exporter: sends all metrics at an interval, and once more at the end.

mod metrics;

use crate::Instruments;
use crate::otlp::Sender;
use hivemind_core::{Clock, SystemClock};
use opentelemetry_proto::tonic::resource::v1::Resource;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};

/// Sends all metrics to one receiver.
pub struct MetricsExporter {
    pub sender: Sender,
    pub instruments: Instruments,
    pub resource: Arc<Resource>,
    pub interval: Duration,
}

impl MetricsExporter {
    /// Sends until it is stopped, and then the counts since the last message.
    pub async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        let ended = self.repeat(&mut stopped);
        ended.await;
        self.send().await;
    }

    async fn repeat(&mut self, stopped: &mut watch::Receiver<bool>) {
        let mut stop = pin!(async {
            let _ = stopped.wait_for(|stopped| *stopped).await; // A dropped sender stops it, too.
        });
        let mut ticks = interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick fires immediately, before there is anything to send.
        ticks.reset();
        loop {
            let turn = async {
                ticks.tick().await;
                self.send().await;
                let _ = timeout(self.sender.pause(), pending::<()>()).await;
            };
            // The current attempt is dropped, because a last message follows.
            tokio::select! { biased;
                () = &mut stop => return,
                () = turn => {}
            }
        }
    }

    async fn send(&mut self) {
        let now = SystemClock.now();
        let families = self.instruments.families();
        let message = metrics::message(&families, &self.resource, self.instruments.stats.started, now);
        // The sender logs the result; the next message contains the same counters.
        let _ = self.sender.send(&message).await;
    }
}
