//! One connection, from its first byte to its end. Whoever does not begin to speak
//! HTTP/2, has nothing to ask for long, does not answer a ping, or is old, is shown
//! out by `GOAWAY`; calls under way are answered first.

use super::batch::{Batch, Call};
use super::call::{Calls, Desk};
use super::socket::Heard;
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
use tokio::time::{interval, timeout};

/// What one connection may have open at once.
const MOST_STREAMS: u32 = 1_000;
const LARGEST_HEADERS: u32 = 16 << 10;
/// Far more than all the messages that are under way at once need.
const WINDOW: u32 = 1 << 20;
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// The client's preface and the header of its first frame: less is no HTTP/2.
const HANDSHAKE: u64 = 24 + 9;
/// Who is shown out and has no call under way goes within this, or is cut off.
const LINGER: Duration = Duration::from_secs(5);

/// What happens on a connection.
#[derive(Debug, Default)]
pub(super) struct Activity {
    begun: Cell<u64>,
    open: Cell<u64>,
}

impl Activity {
    pub(super) fn call_begun(&self) {
        self.begun.set(self.begun.get() + 1);
    }
}

/// A call that is not answered yet, or whose answer has not ended.
pub(super) struct OpenCall(Rc<Activity>);

impl OpenCall {
    pub(super) fn new(activity: &Rc<Activity>) -> Self {
        activity.open.set(activity.open.get() + 1);
        Self(Rc::clone(activity))
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.open.set(self.0.open.get() - 1);
    }
}

/// Serves a connection to its end.
pub(super) async fn serve<S: Store + 'static>(
    io: impl AsyncRead + AsyncWrite + Unpin + 'static,
    desk: Rc<Desk<S>>,
    patience: Patience,
    mut stopped: watch::Receiver<bool>,
) {
    let (heard, activity) = (Rc::new(Cell::new(0)), Rc::new(Activity::default()));
    let io = TokioIo::new(Heard { io, bytes: Rc::clone(&heard) });
    let calls = Calls { desk, activity: Rc::clone(&activity) };
    let batch = Batch::default();
    let connection = Box::pin(settings(batch.clone()).serve_connection(io, calls));
    let mut driven = Driven { connection, batch, emptied: Vec::new() };
    let mut stopped = pin!(stopped.wait_for(|stopped| *stopped));
    let mut old = pin!(timeout(patience.age, pending::<()>()));
    let mut begun = None;
    let mut quiet = interval(patience.idle);
    quiet.reset_after(patience.handshake);
    loop {
        tokio::select! { biased;
            _ = &mut driven => return,
            _ = &mut stopped => break,
            _ = &mut old => break,
            _ = quiet.tick() => {
                if heard.get() < HANDSHAKE {
                    return;
                }
                // Idle: no call has begun since the last look, and none is under way.
                if begun.replace(activity.begun.get()) == Some(activity.begun.get()) && activity.open.get() == 0 {
                    break;
                }
            }
        }
    }
    driven.connection.as_mut().graceful_shutdown();
    while timeout(LINGER, &mut driven).await.is_err() {
        if activity.open.get() == 0 {
            return;
        }
    }
}

/// A connection with the calls that it begins.
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
            // What the calls answer is written when the connection is polled once more, all together.
            if !batch.run(emptied) || polled.is_ready() {
                return polled;
            }
        }
    }
}

fn settings(batch: Batch) -> http2::Builder<Batch> {
    let mut builder = http2::Builder::new(batch);
    builder
        .timer(TokioTimer::new())
        .auto_date_header(false)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_concurrent_streams(MOST_STREAMS)
        .max_header_list_size(LARGEST_HEADERS)
        .keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE_TIMEOUT);
    builder
}
