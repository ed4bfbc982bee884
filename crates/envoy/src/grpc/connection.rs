//! One HTTP/2 connection, from its first byte to its end. `GOAWAY` closes a connection without an HTTP/2 preface,
//! without calls for too long, without ping responses, of maximum age, or whose place is needed; calls in progress are
//! answered first.

use super::activity::Activity;
use super::api_key::ApiKeyCheck;
use super::batch::{CallBatch, PendingCall};
use super::call::{CallService, GrpcWorker};
use super::connection_schedule::{CheckOutcome, ConnectionProgress, ConnectionSchedule, PREFACE_LENGTH};
use super::workers::GrpcTimeouts;
use hivemind_core::store::Store;
use hivemind_core::{Clock, MonotonicClock};
use hivemind_tls::connections::ConnectionPermit;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{interval, timeout};
use tokio_util::io::InspectReader;

/// Maximum number of open streams per connection.
const MAX_STREAMS: u32 = 1_000;
const MAX_HEADER_SIZE: u32 = 16 << 10;
/// Flow control window of a stream, and of a connection.
const WINDOW: u32 = 1 << 20;
/// After a stall, a proxy resets all calls that it has waited for too long, at once. More of them than this are
/// treated as an attack (the default of h2, 20, is less than a busy Envoy has in progress).
const MAX_PENDING_RESETS: usize = 200;
/// After GOAWAY, a connection without calls has this long to close.
const LINGER: Duration = Duration::from_secs(2);
/// Time for calls in flight when the connection has to close for another one.
const EVICTED_LINGER: Duration = Duration::from_millis(100);

/// Serves a connection to its end.
pub(super) async fn serve<S: Store + 'static>(
    io: impl AsyncRead + AsyncWrite + Unpin + 'static,
    permit: ConnectionPermit,
    worker: Rc<GrpcWorker<S>>,
    timeouts: GrpcTimeouts,
    mut stopped: watch::Receiver<bool>,
) {
    let permit = Rc::new(permit);
    let (received, activity) = (Rc::new(Cell::new(0)), Rc::new(Activity::new(&permit)));
    let counter = Rc::clone(&received);
    let io = InspectReader::new(io, move |read: &[u8]| counter.set(counter.get() + read.len()));
    let calls = CallService { worker, activity: Rc::clone(&activity), key_check: ApiKeyCheck::default() };
    // Half of it to receive and decide, half of it to send.
    let batch = CallBatch::new(Rc::clone(&activity), timeouts.call * 2);
    let connection = Box::pin(settings(batch.clone(), timeouts).serve_connection(TokioIo::new(io), calls));
    let mut driver = ConnectionDriver { connection, batch, spare: Vec::new() };
    let mut stopped = pin!(stopped.wait_for(|stopped| *stopped));
    let mut schedule = ConnectionSchedule::new(timeouts, MonotonicClock.now());
    let mut check = interval(schedule.first_check());
    check.reset();
    loop {
        // The connection comes last: otherwise a busy one would use up the budget of the other branches.
        tokio::select! { biased;
            _ = &mut stopped => break,
            () = permit.evicted() => break,
            _ = check.tick() => {
                let (call_count, is_busy) = (activity.call_count(), activity.is_busy());
                let progress = ConnectionProgress { received: received.get(), call_count, is_busy };
                match schedule.check(MonotonicClock.now(), progress) {
                    CheckOutcome::CheckAfter(time) => check.reset_after(time),
                    CheckOutcome::Drain => break,
                }
            }
            result = &mut driver => return log_end(result),
        }
    }
    // A client that sent no preface does not understand GOAWAY.
    if received.get() < PREFACE_LENGTH {
        return;
    }
    driver.connection.as_mut().graceful_shutdown();
    if permit.is_evicted() {
        // Its place is needed: an idle connection only sends GOAWAY.
        let time_limit = if activity.is_busy() { EVICTED_LINGER } else { Duration::ZERO };
        let _ = timeout(time_limit, &mut driver).await;
    } else {
        linger(driver, &activity).await;
    }
}

/// Waits until all calls are answered and the peer has closed. Streams have no end to wait for.
async fn linger(mut driver: impl Future<Output = hyper::Result<()>> + Unpin, activity: &Activity) {
    let mut had_calls = true;
    loop {
        if let Ok(result) = timeout(LINGER, &mut driver).await {
            return log_end(result);
        }
        if !had_calls && !activity.has_calls() {
            return;
        }
        had_calls = activity.has_calls();
    }
}

fn log_end(result: hyper::Result<()>) {
    if let Err(error) = result {
        tracing::debug!("a connection ended: {error}");
    }
}

/// A connection with the calls that it starts.
struct ConnectionDriver<C> {
    connection: Pin<Box<C>>,
    batch: CallBatch,
    spare: Vec<PendingCall>,
}

impl<C: Future> Future for ConnectionDriver<C> {
    type Output = C::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<C::Output> {
        let Self { connection, batch, spare } = self.get_mut();
        loop {
            let polled = connection.as_mut().poll(cx);
            // The next poll of the connection writes all responses together.
            if !batch.run(spare) || polled.is_ready() {
                return polled;
            }
        }
    }
}

impl<C> Drop for ConnectionDriver<C> {
    fn drop(&mut self) {
        self.batch.clear();
    }
}

fn settings(batch: CallBatch, timeouts: GrpcTimeouts) -> http2::Builder<CallBatch> {
    let mut builder = http2::Builder::new(batch);
    builder
        .timer(TokioTimer::new())
        .auto_date_header(false)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADER_SIZE)
        .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
        .keep_alive_interval(timeouts.ping)
        .keep_alive_timeout(timeouts.pong);
    builder
}
