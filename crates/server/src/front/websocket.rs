//! WebSocket forwarding: copies bytes between client and upstream unchanged.
//!
//! Frames are not re-encoded. If messages are counted, the frame headers of the client are parsed on the way
//! (`gate`), and a frame is charged before any of its bytes pass; otherwise nothing from the client is parsed. Frame
//! headers of the upstream are always parsed: a Close frame of the gateway, on a limit or at shutdown, must be placed
//! between two frames.
//!
//! Invariant: bytes that an application could parse differently from the gate never reach it.

mod frame;
mod gate;
mod handshake;
mod lane;
#[cfg(any(test, fuzzing))]
mod scan;
#[cfg(test)]
mod tests;

pub(crate) use frame::Violation;
pub(crate) use handshake::{accept_key, is_handshake};
#[cfg(any(test, fuzzing))]
pub(crate) use scan::scan;

use frame::Farewell;
use gate::{Charge, ClientGate, ServerGate, Stop};
use hivemind_tower::websocket::{Close, MessageLimiter};
use lane::{End, Lane};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

/// Time limit of a Close: the rest of a frame, our Close, and the peer's Close.
const FAREWELL: Duration = Duration::from_secs(2);
/// Idle timeout after one side has finished.
const HALF_CLOSED: Duration = Duration::from_secs(10);
/// Checks per idle timeout: an idle connection closes at most a quarter late.
const LOOKS: u32 = 4;

/// The outcome of a connection.
#[derive(Debug)]
pub(crate) struct Spliced {
    pub(crate) ended: Ended,
    /// Bytes sent to the upstream.
    pub(crate) to_upstream: u64,
    /// Bytes sent to the client.
    pub(crate) to_client: u64,
    /// Messages of the client that were counted and forwarded.
    pub(crate) messages: u64,
}

/// Why a connection ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Both sides finished.
    Finished,
    /// The client exceeded its message limit, and received a Close.
    Limited(Close),
    /// The client sent an invalid frame, and received a Close.
    Malformed(Violation),
    /// No bytes arrived from either side for too long.
    Idle,
    /// The gateway is shutting down.
    Stopped,
    /// The client connection failed.
    ClientFailed(io::Error),
    /// The upstream connection failed.
    UpstreamFailed(io::Error),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finished => f.write_str("both sides closed"),
            Self::Limited(close) => write!(f, "closed with {close}"),
            Self::Malformed(violation) => write!(f, "closed with {}: {violation}", Farewell::PROTOCOL_ERROR),
            Self::Idle => f.write_str("idle timeout"),
            Self::Stopped => f.write_str("the gateway is shutting down"),
            Self::ClientFailed(error) => write!(f, "the client failed: {error}"),
            Self::UpstreamFailed(error) => write!(f, "the upstream failed: {error}"),
        }
    }
}

/// Copies bytes between a client and an upstream after a WebSocket handshake, until both finish, `idle` passes
/// without a byte, or the gateway is `stopped`. With a limiter, the client's messages are counted, and one over the
/// limit closes the connection with 4429.
pub(crate) async fn splice<C, U>(
    client: C,
    upstream: U,
    limiter: Option<MessageLimiter>,
    idle: Duration,
    stopped: watch::Receiver<bool>,
) -> Spliced
where
    C: AsyncRead + AsyncWrite + Unpin,
    U: AsyncRead + AsyncWrite + Unpin,
{
    Splice::new(client, upstream, ClientGate::new(limiter), ServerGate::following()).run(idle, stopped).await
}

/// Closes a WebSocket that the gateway accepted only to send this, because scripts in a browser cannot read an HTTP
/// error. Waits briefly for the client's Close.
pub(crate) async fn refuse_with_close<C: AsyncRead + AsyncWrite + Unpin>(mut client: C, close: &Close) {
    let farewell = Farewell { code: close.code, reason: &close.reason };
    let mut lane = Lane::new(ClientGate::refusing());
    let _ = timeout(FAREWELL, async {
        client.write_all(&farewell.to_client()).await?;
        client.flush().await?;
        // Read everything: closing a socket with unread bytes discards what it has sent.
        let _ = poll_fn(|cx| lane.poll(cx, &mut client, &mut tokio::io::sink())).await;
        client.shutdown().await
    })
    .await;
}

/// The two connections, and both directions between them.
struct Splice<C, U, L> {
    client: C,
    upstream: U,
    up: Direction<ClientGate<L>>,
    down: Direction<ServerGate>,
    /// The first failure.
    failure: Option<Ended>,
}

struct Direction<G> {
    lane: Lane<G>,
    is_over: bool,
}

enum Event {
    /// One direction has ended, the other has not.
    HalfClosed,
    /// Both have ended.
    Finished,
    Stopped(Stop),
}

impl<C, U, L> Splice<C, U, L>
where
    C: AsyncRead + AsyncWrite + Unpin,
    U: AsyncRead + AsyncWrite + Unpin,
    L: Charge,
{
    fn new(client: C, upstream: U, up: ClientGate<L>, down: ServerGate) -> Self {
        let up = Direction { lane: Lane::new(up), is_over: false };
        let down = Direction { lane: Lane::new(down), is_over: false };
        Self { client, upstream, up, down, failure: None }
    }

    async fn run(mut self, idle: Duration, stopped: watch::Receiver<bool>) -> Spliced {
        let mut ended = self.pass(idle, stopped).await;
        if !matches!(ended, Ended::Finished) {
            let _ = timeout(FAREWELL, self.part(&ended)).await;
        } else if let Some(failure) = self.failure.take() {
            ended = failure;
        }
        Spliced {
            ended,
            to_upstream: self.up.lane.passed,
            to_client: self.down.lane.passed,
            messages: self.up.lane.gate.messages(),
        }
    }

    /// Copies bytes until the connection must end.
    async fn pass(&mut self, idle: Duration, mut stopped: watch::Receiver<bool>) -> Ended {
        let mut looks = looks(idle);
        let mut silent_looks = 0;
        loop {
            tokio::select! {
                event = poll_fn(|cx| self.poll_both(cx)) => match event {
                    Event::HalfClosed => looks = self::looks(idle.min(HALF_CLOSED)),
                    Event::Finished => return Ended::Finished,
                    Event::Stopped(Stop::Limited(close)) => return Ended::Limited(close),
                    Event::Stopped(Stop::Malformed(violation)) => return Ended::Malformed(violation),
                },
                _ = looks.tick() => {
                    silent_looks = if self.has_moved() { 0 } else { silent_looks + 1 };
                    if silent_looks >= LOOKS {
                        return Ended::Idle;
                    }
                }
                () = stop(&mut stopped) => return Ended::Stopped,
            }
        }
    }

    fn has_moved(&mut self) -> bool {
        let up = std::mem::take(&mut self.up.lane.has_moved);
        std::mem::take(&mut self.down.lane.has_moved) || up
    }

    fn poll_both(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        let were_over = (self.up.is_over, self.down.is_over);
        if let Poll::Ready(Some(stop)) = self.poll_up(cx) {
            return Poll::Ready(Event::Stopped(stop));
        }
        let _ = self.poll_down(cx);
        match (self.up.is_over, self.down.is_over) {
            (true, true) => Poll::Ready(Event::Finished),
            now if now != were_over => Poll::Ready(Event::HalfClosed),
            _ => Poll::Pending,
        }
    }

    /// Ready when nothing more goes up; with the reason if the gate stopped it.
    fn poll_up(&mut self, cx: &mut Context<'_>) -> Poll<Option<Stop>> {
        if self.up.is_over {
            return Poll::Ready(None);
        }
        self.up.lane.poll(cx, &mut self.client, &mut self.upstream).map(|end| {
            // After a stop the lane continues reading, for the client's Close.
            let failure = match end {
                End::Stopped(stop) => return Some(stop),
                End::Finished | End::Over => None,
                End::ReadFailed(error) => Some(Ended::ClientFailed(error)),
                End::WriteFailed(error) => Some(Ended::UpstreamFailed(error)),
            };
            self.up.is_over = true;
            self.failure = self.failure.take().or(failure);
            None
        })
    }

    /// Ready when nothing more comes down. Returns whether the gate waited for that.
    fn poll_down(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if self.down.is_over {
            return Poll::Ready(false);
        }
        self.down.lane.poll(cx, &mut self.upstream, &mut self.client).map(|end| {
            let failure = match end {
                End::Over => return true,
                End::Finished | End::Stopped(_) => None,
                End::ReadFailed(error) => Some(Ended::UpstreamFailed(error)),
                End::WriteFailed(error) => Some(Ended::ClientFailed(error)),
            };
            self.down.is_over = true;
            self.failure = self.failure.take().or(failure);
            false
        })
    }

    /// Sends a Close to both sides, and waits for the client's Close.
    async fn part(&mut self, ended: &Ended) {
        let violation;
        let farewell = match ended {
            Ended::Limited(close) => Farewell { code: close.code, reason: &close.reason },
            Ended::Malformed(found) => {
                violation = found.to_string();
                Farewell { code: Farewell::PROTOCOL_ERROR, reason: &violation }
            }
            Ended::Idle => Farewell { code: Farewell::GOING_AWAY, reason: "Idle timeout." },
            _ => Farewell { code: Farewell::GOING_AWAY, reason: "The gateway is shutting down." },
        };
        let is_refusal = matches!(ended, Ended::Limited(_) | Ended::Malformed(_));
        if is_refusal {
            // The gate stopped between two frames. Otherwise the client's own Close goes up.
            self.up.lane.say(&Farewell { code: Farewell::GOING_AWAY, reason: "" }.to_upstream());
        }
        self.up.lane.gate.await_close();
        let mut close = self.down.lane.gate.finish().then(|| farewell.to_client());
        poll_fn(|cx| self.poll_part(cx, &mut close)).await;
        let _ = self.client.shutdown().await;
        let _ = self.upstream.shutdown().await;
    }

    fn poll_part(&mut self, cx: &mut Context<'_>, close: &mut Option<Vec<u8>>) -> Poll<()> {
        while self.poll_down(cx) == Poll::Ready(true) {
            self.down.lane.say(&close.take().unwrap_or_default());
            self.down.lane.gate.silence();
        }
        while let Poll::Ready(Some(_)) = self.poll_up(cx) {}
        let is_sent = self.down.is_over || (close.is_none() && self.down.lane.is_written());
        // If the client's frames are not parsed, the end of the upstream shows that the Close arrived.
        let is_received = self.up.is_over || (self.down.is_over && !self.up.lane.gate.is_counting());
        if is_sent && is_received { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Ticks that detect a silence of `idle`.
fn looks(idle: Duration) -> Interval {
    let mut looks = interval((idle / LOOKS).max(Duration::from_millis(1)));
    // While a machine sleeps, missed ticks are not silence.
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks.reset(); // Skip the immediate first tick.
    looks
}

/// Returns at shutdown; a dropped sender does not count as one.
async fn stop(stopped: &mut watch::Receiver<bool>) {
    if stopped.wait_for(|stopped| *stopped).await.is_err() {
        std::future::pending::<()>().await;
    }
}
