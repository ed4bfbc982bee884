//! One HTTP/2 connection, from its first byte to its end. `GOAWAY` closes a connection without an HTTP/2 preface,
//! without calls for too long, without ping responses, or of maximum age; calls in progress are answered first.

use super::activity::Activity;
use super::batch::{Batch, Call};
use super::call::{Calls, Desk};
use super::gate::Gate;
use super::workers::Patience;
use hivemind_core::store::Store;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::cell::Cell;
use std::future::{Future, pending};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::io::InspectReader;

/// Maximum number of open streams per connection.
const MOST_STREAMS: u32 = 1_000;
const LARGEST_HEADERS: u32 = 16 << 10;
/// Flow control window of a stream, and of a connection.
const WINDOW: u32 = 1 << 20;
/// After a stall, a proxy resets all calls that it has waited for too long, at once. More of them than this are
/// treated as an attack (the default of h2, 20, is less than a busy Envoy has in progress).
const MOST_TAKEN_BACK: usize = 200;
/// The client preface and the header of its first frame.
const HANDSHAKE: usize = 24 + 9;
/// After GOAWAY, a connection without calls has this long to close.
const LINGER: Duration = Duration::from_secs(2);

/// Serves a connection to its end.
pub(super) async fn serve<S: Store + 'static>(
    io: impl AsyncRead + AsyncWrite + Unpin + 'static,
    desk: Rc<Desk<S>>,
    patience: Patience,
    mut stopped: watch::Receiver<bool>,
) {
    let (heard, activity) = (Rc::new(Cell::new(0)), Rc::new(Activity::default()));
    let counted = Rc::clone(&heard);
    let io = InspectReader::new(io, move |read: &[u8]| counted.set(counted.get() + read.len()));
    let calls = Calls { desk, activity: Rc::clone(&activity), gate: Gate::default() };
    // Half of it to receive and decide, half of it to send.
    let batch = Batch::new(Rc::clone(&activity), patience.call * 2);
    let connection = Box::pin(settings(batch.clone(), patience).serve_connection(TokioIo::new(io), calls));
    let mut driven = Driven { connection, batch, emptied: Vec::new() };
    let mut stopped = pin!(stopped.wait_for(|stopped| *stopped));
    let mut old = pin!(timeout(patience.age, pending::<()>()));
    let (mut begun, mut greeted) = (0, false);
    let mut greeting = pin!(timeout(patience.handshake, pending::<()>()));
    let mut quiet = interval(patience.idle);
    quiet.set_missed_tick_behavior(MissedTickBehavior::Delay);
    quiet.reset();
    loop {
        // The connection comes last: otherwise a busy one would use up the budget of the other branches.
        tokio::select! { biased;
            _ = &mut stopped => break,
            _ = &mut old => break,
            _ = &mut greeting, if !greeted => {
                greeted = heard.get() >= HANDSHAKE;
                if !greeted {
                    return;
                }
            }
            _ = quiet.tick() => {
                // Idle: no call started since the last tick, and none is in progress.
                let before = std::mem::replace(&mut begun, activity.begun());
                if begun == before && !activity.is_busy() {
                    break;
                }
            }
            ended = &mut driven => return note(ended),
        }
    }
    // A client that sent no preface does not understand GOAWAY.
    if heard.get() >= HANDSHAKE {
        driven.connection.as_mut().graceful_shutdown();
        linger(driven, &activity).await;
    }
}

/// Waits until all calls are answered and the peer has closed. Streams have no end to wait for.
async fn linger(mut driven: impl Future<Output = hyper::Result<()>> + Unpin, activity: &Activity) {
    let mut was_open = true;
    loop {
        if let Ok(ended) = timeout(LINGER, &mut driven).await {
            return note(ended);
        }
        if !was_open && !activity.has_calls() {
            return;
        }
        was_open = activity.has_calls();
    }
}

fn note(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!("a connection ended: {error}");
    }
}

/// A connection with the calls that it starts.
struct Driven<C> {
    connection: Pin<Box<C>>,
    batch: Batch,
    emptied: Vec<Call>,
}

impl<C: Future> Future for Driven<C> {
    type Output = C::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<C::Output> {
        let Self { connection, batch, emptied } = self.get_mut();
        loop {
            let polled = connection.as_mut().poll(cx);
            // The next poll of the connection writes all responses together.
            if !batch.run(emptied) || polled.is_ready() {
                return polled;
            }
        }
    }
}

impl<C> Drop for Driven<C> {
    fn drop(&mut self) {
        self.batch.clear();
    }
}

fn settings(batch: Batch, patience: Patience) -> http2::Builder<Batch> {
    let mut builder = http2::Builder::new(batch);
    builder
        .timer(TokioTimer::new())
        .auto_date_header(false)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_concurrent_streams(MOST_STREAMS)
        .max_header_list_size(LARGEST_HEADERS)
        .max_pending_accept_reset_streams(MOST_TAKEN_BACK)
        .keep_alive_interval(patience.ping)
        .keep_alive_timeout(patience.pong);
    builder
}
