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
mod ping_limit;
mod pipe;
#[cfg(any(test, fuzzing, feature = "testing"))]
mod scan;
#[cfg(test)]
mod tests;

pub(crate) use frame::Violation;
pub(crate) use handshake::{accept_key, is_handshake};
pub(crate) use ping_limit::PingLimit;
#[cfg(any(test, fuzzing, feature = "testing"))]
pub use scan::{ScanResult, scan};

use frame::CloseFrame;
use gate::{ClientGate, GateStop, MessageCharger, ServerGate};
use hivemind_tower::websocket::{Close, MessageLimiter};
use pipe::{DirectionEnd, FramePipe};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};

/// Time limit of a Close: the rest of a frame, our Close, and the peer's Close.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Idle timeout after one side has finished.
const HALF_CLOSED_TIMEOUT: Duration = Duration::from_secs(10);
const TOO_MANY_PINGS: &str = "Too many pings.";
/// Checks per idle timeout: an idle connection closes at most a quarter late.
const IDLE_CHECKS: u32 = 4;

/// The outcome of a connection.
#[derive(Debug)]
pub struct SpliceSummary {
    pub end: SpliceEnd,
    /// Bytes sent to the upstream.
    pub to_upstream: u64,
    /// Bytes sent to the client.
    pub to_client: u64,
    /// Messages of the client that were counted and forwarded.
    pub messages: u64,
}

/// Why a connection ended.
#[derive(Debug)]
pub enum SpliceEnd {
    /// Both sides finished.
    Finished,
    /// The client exceeded its message limit, and received a Close.
    Limited(Close),
    /// The client sent too many pings and pongs, and received a Close.
    TooManyPings,
    /// The client sent an invalid frame, and received a Close.
    Malformed(Violation),
    /// No bytes arrived from either side for too long.
    Idle,
    /// The gateway is shutting down.
    Shutdown,
    /// The client connection failed.
    ClientFailed(io::Error),
    /// The upstream connection failed.
    UpstreamFailed(io::Error),
}

impl fmt::Display for SpliceEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finished => f.write_str("both sides closed"),
            Self::Limited(close) => write!(f, "closed with {close}"),
            Self::TooManyPings => write!(f, "closed with {}: {TOO_MANY_PINGS}", Close::CODE),
            Self::Malformed(violation) => {
                write!(f, "closed with {}: {violation}", CloseFrame::PROTOCOL_ERROR)
            }
            Self::Idle => f.write_str("idle timeout"),
            Self::Shutdown => f.write_str("the gateway is shutting down"),
            Self::ClientFailed(error) => write!(f, "the client failed: {error}"),
            Self::UpstreamFailed(error) => write!(f, "the upstream failed: {error}"),
        }
    }
}

/// The limits of a connection, if its client's frames are parsed.
pub(crate) struct FrameLimits {
    pub(crate) messages: MessageLimiter,
    pub(crate) pings: PingLimit,
}

/// Copies bytes between a client and an upstream after a WebSocket handshake, until both finish, `idle` passes
/// without a byte, or the gateway is `stopped`. With limits, the client's messages and pings are counted, and one over
/// its limit closes the connection with 4429.
pub(crate) async fn splice<C, U>(
    client: C,
    upstream: U,
    limits: Option<FrameLimits>,
    idle: Duration,
    stopped: watch::Receiver<bool>,
) -> SpliceSummary
where
    C: AsyncRead + AsyncWrite + Unpin,
    U: AsyncRead + AsyncWrite + Unpin,
{
    let gate = match limits {
        Some(FrameLimits { messages, pings }) => ClientGate::new(Some(messages)).with_ping_limit(pings),
        None => ClientGate::new(None),
    };
    Splice::new(client, upstream, gate, ServerGate::new()).run(idle, stopped).await
}

/// Closes a WebSocket that the gateway accepted only to send this, because scripts in a browser cannot read an HTTP
/// error. Waits briefly for the client's Close.
pub(crate) async fn refuse_with_close<C: AsyncRead + AsyncWrite + Unpin>(mut client: C, close: &Close) {
    let close_frame = CloseFrame { code: close.code, reason: &close.reason };
    let mut pipe = FramePipe::new(ClientGate::refused());
    let _ = timeout(CLOSE_TIMEOUT, async {
        client.write_all(&close_frame.to_client()).await?;
        client.flush().await?;
        // Read everything: closing a socket with unread bytes discards what it has sent.
        let _ = poll_fn(|cx| pipe.poll(cx, &mut client, &mut tokio::io::sink())).await;
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
    failure: Option<SpliceEnd>,
}

struct Direction<G> {
    pipe: FramePipe<G>,
    is_finished: bool,
}

enum SpliceEvent {
    /// One direction has ended, the other has not.
    HalfClosed,
    /// Both have ended.
    Finished,
    Stopped(GateStop),
}

impl<C, U, L> Splice<C, U, L>
where
    C: AsyncRead + AsyncWrite + Unpin,
    U: AsyncRead + AsyncWrite + Unpin,
    L: MessageCharger,
{
    fn new(client: C, upstream: U, up: ClientGate<L>, down: ServerGate) -> Self {
        let up = Direction { pipe: FramePipe::new(up), is_finished: false };
        let down = Direction { pipe: FramePipe::new(down), is_finished: false };
        Self { client, upstream, up, down, failure: None }
    }

    async fn run(mut self, idle: Duration, stopped: watch::Receiver<bool>) -> SpliceSummary {
        let mut end = self.forward(idle, stopped).await;
        if !matches!(end, SpliceEnd::Finished) {
            let _ = timeout(CLOSE_TIMEOUT, self.close(&end)).await;
        } else if let Some(failure) = self.failure.take() {
            end = failure;
        }
        SpliceSummary {
            end,
            to_upstream: self.up.pipe.passed,
            to_client: self.down.pipe.passed,
            messages: self.up.pipe.gate.messages(),
        }
    }

    /// Copies bytes until the connection must end.
    async fn forward(&mut self, idle: Duration, mut stopped: watch::Receiver<bool>) -> SpliceEnd {
        let mut checks = idle_checks(idle);
        let mut silent_checks = 0;
        loop {
            tokio::select! {
                event = poll_fn(|cx| self.poll_both(cx)) => match event {
                    SpliceEvent::HalfClosed => checks = idle_checks(idle.min(HALF_CLOSED_TIMEOUT)),
                    SpliceEvent::Finished => return SpliceEnd::Finished,
                    SpliceEvent::Stopped(GateStop::Limited(close)) => return SpliceEnd::Limited(close),
                    SpliceEvent::Stopped(GateStop::TooManyPings) => return SpliceEnd::TooManyPings,
                    SpliceEvent::Stopped(GateStop::Malformed(violation)) => return SpliceEnd::Malformed(violation),
                },
                _ = checks.tick() => {
                    silent_checks = if self.take_activity() { 0 } else { silent_checks + 1 };
                    if silent_checks >= IDLE_CHECKS {
                        return SpliceEnd::Idle;
                    }
                }
                () = wait_for_stop(&mut stopped) => return SpliceEnd::Shutdown,
            }
        }
    }

    fn take_activity(&mut self) -> bool {
        let up = std::mem::take(&mut self.up.pipe.has_moved);
        std::mem::take(&mut self.down.pipe.has_moved) || up
    }

    fn poll_both(&mut self, cx: &mut Context<'_>) -> Poll<SpliceEvent> {
        let were_finished = (self.up.is_finished, self.down.is_finished);
        if let Poll::Ready(Some(stop)) = self.poll_up(cx) {
            return Poll::Ready(SpliceEvent::Stopped(stop));
        }
        let _ = self.poll_down(cx);
        match (self.up.is_finished, self.down.is_finished) {
            (true, true) => Poll::Ready(SpliceEvent::Finished),
            now if now != were_finished => Poll::Ready(SpliceEvent::HalfClosed),
            _ => Poll::Pending,
        }
    }

    /// Ready when nothing more goes up; with the reason if the gate stopped it.
    fn poll_up(&mut self, cx: &mut Context<'_>) -> Poll<Option<GateStop>> {
        if self.up.is_finished {
            return Poll::Ready(None);
        }
        self.up.pipe.poll(cx, &mut self.client, &mut self.upstream).map(|end| {
            // After a stop the pipe continues reading, for the client's Close.
            let failure = match end {
                DirectionEnd::Stopped(stop) => return Some(stop),
                DirectionEnd::Finished | DirectionEnd::GateFinished => None,
                DirectionEnd::ReadFailed(error) => Some(SpliceEnd::ClientFailed(error)),
                DirectionEnd::WriteFailed(error) => Some(SpliceEnd::UpstreamFailed(error)),
            };
            self.up.is_finished = true;
            self.failure = self.failure.take().or(failure);
            None
        })
    }

    /// Ready when nothing more comes down. Returns whether the gate waited for that.
    fn poll_down(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if self.down.is_finished {
            return Poll::Ready(false);
        }
        self.down.pipe.poll(cx, &mut self.upstream, &mut self.client).map(|end| {
            let failure = match end {
                DirectionEnd::GateFinished => return true,
                DirectionEnd::Finished | DirectionEnd::Stopped(_) => None,
                DirectionEnd::ReadFailed(error) => Some(SpliceEnd::UpstreamFailed(error)),
                DirectionEnd::WriteFailed(error) => Some(SpliceEnd::ClientFailed(error)),
            };
            self.down.is_finished = true;
            self.failure = self.failure.take().or(failure);
            false
        })
    }

    /// Sends a Close to both sides, and waits for the client's Close.
    async fn close(&mut self, end: &SpliceEnd) {
        let violation;
        let close_frame = match end {
            SpliceEnd::Limited(close) => CloseFrame { code: close.code, reason: &close.reason },
            SpliceEnd::TooManyPings => CloseFrame { code: Close::CODE, reason: TOO_MANY_PINGS },
            SpliceEnd::Malformed(found) => {
                violation = found.to_string();
                CloseFrame { code: CloseFrame::PROTOCOL_ERROR, reason: &violation }
            }
            SpliceEnd::Idle => CloseFrame { code: CloseFrame::GOING_AWAY, reason: "Idle timeout." },
            _ => CloseFrame { code: CloseFrame::GOING_AWAY, reason: "The gateway is shutting down." },
        };
        let is_refusal =
            matches!(end, SpliceEnd::Limited(_) | SpliceEnd::TooManyPings | SpliceEnd::Malformed(_));
        if is_refusal {
            // The gate stopped between two frames. Otherwise the client's own Close goes up.
            self.up.pipe.enqueue(&CloseFrame { code: CloseFrame::GOING_AWAY, reason: "" }.to_upstream());
        }
        self.up.pipe.gate.await_close();
        let mut close = self.down.pipe.gate.finish().then(|| close_frame.to_client());
        poll_fn(|cx| self.poll_close(cx, &mut close)).await;
        let _ = self.client.shutdown().await;
        let _ = self.upstream.shutdown().await;
    }

    fn poll_close(&mut self, cx: &mut Context<'_>, close: &mut Option<Vec<u8>>) -> Poll<()> {
        while self.poll_down(cx) == Poll::Ready(true) {
            self.down.pipe.enqueue(&close.take().unwrap_or_default());
            self.down.pipe.gate.silence();
        }
        while let Poll::Ready(Some(_)) = self.poll_up(cx) {}
        let is_sent = self.down.is_finished || (close.is_none() && self.down.pipe.is_written());
        // If the client's frames are not parsed, the end of the upstream shows that the Close arrived.
        let is_received = self.up.is_finished || (self.down.is_finished && !self.up.pipe.gate.is_counting());
        if is_sent && is_received { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Ticks that detect a silence of `idle`.
fn idle_checks(idle: Duration) -> Interval {
    let mut checks = interval((idle / IDLE_CHECKS).max(Duration::from_millis(1)));
    // While a machine sleeps, missed ticks are not silence.
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    checks.reset(); // Skip the immediate first tick.
    checks
}

/// Returns at shutdown; a dropped sender does not count as one.
async fn wait_for_stop(stopped: &mut watch::Receiver<bool>) {
    if stopped.wait_for(|stopped| *stopped).await.is_err() {
        std::future::pending::<()>().await;
    }
}
