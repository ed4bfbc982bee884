//! A WebSocket through the gateway: the client's bytes to the upstream and back, as they are.
//!
//! Frames are not re-encoded. Where messages are counted, the heads of the client's frames are
//! read on the way (`gate`), and a frame is charged before a byte of it goes on; where they are
//! not, nothing of the client's is read. The heads of the upstream's frames are always followed: a Close of the
//! gateway's own, when a client is over its limit or the gateway stops, must stand between two frames.
//! Invariant: what an application could read otherwise than the gate does never reaches it.

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

/// How long a Close may take: the rest of a frame, the Close, and the other's in return.
const FAREWELL: Duration = Duration::from_secs(2);
/// Once one end has said its last, the other has no more than this long between two bytes.
const HALF_CLOSED: Duration = Duration::from_secs(10);
/// Silence is looked for so many times in the time it may last: it is told late by a quarter at most.
const LOOKS: u32 = 4;

/// What came of a connection.
#[derive(Debug)]
pub(crate) struct Spliced {
    pub(crate) ended: Ended,
    /// Bytes that the upstream was given.
    pub(crate) to_upstream: u64,
    /// Bytes that the client was given.
    pub(crate) to_client: u64,
    /// Messages of the client that were counted and let through.
    pub(crate) messages: u64,
}

/// Why a connection ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Both ends were done.
    Finished,
    /// The client sent a message too many, and was told so.
    Limited(Close),
    /// The client sent what no client may send, and was told so.
    Malformed(Violation),
    /// Nothing came from either end for too long.
    Idle,
    /// The gateway stops.
    Stopped,
    /// The client, or the way to it, broke.
    ClientFailed(io::Error),
    /// The upstream, or the way to it, broke.
    UpstreamFailed(io::Error),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finished => f.write_str("both ends were done"),
            Self::Limited(close) => write!(f, "closed with {close}"),
            Self::Malformed(violation) => write!(f, "closed with {}: {violation}", Farewell::PROTOCOL_ERROR),
            Self::Idle => f.write_str("nothing was said for too long"),
            Self::Stopped => f.write_str("the gateway stops"),
            Self::ClientFailed(error) => write!(f, "the client failed: {error}"),
            Self::UpstreamFailed(error) => write!(f, "the upstream failed: {error}"),
        }
    }
}

/// Passes bytes between a client and an upstream that have agreed on a WebSocket, until they are
/// done, or `idle` goes by without a byte, or the gateway is `stopped`. With a limiter, the
/// client's messages are counted, and one too many closes the connection with 4429.
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

/// Closes a WebSocket that the gateway itself has accepted only to say this, since a script in a
/// browser does not see what an HTTP answer says. Waits a little for the client's Close.
pub(crate) async fn refuse_with_close<C: AsyncRead + AsyncWrite + Unpin>(mut client: C, close: &Close) {
    let farewell = Farewell { code: close.code, reason: &close.reason };
    let mut lane = Lane::new(ClientGate::refusing());
    let _ = timeout(FAREWELL, async {
        client.write_all(&farewell.to_client()).await?;
        client.flush().await?;
        // Read to the end of it: closed over unread bytes, a socket takes back what it has sent.
        let _ = poll_fn(|cx| lane.poll(cx, &mut client, &mut tokio::io::sink())).await;
        client.shutdown().await
    })
    .await;
}

/// Two ends, and the two directions between them.
struct Splice<C, U, L> {
    client: C,
    upstream: U,
    up: Direction<ClientGate<L>>,
    down: Direction<ServerGate>,
    /// What broke first.
    failure: Option<Ended>,
}

struct Direction<G> {
    lane: Lane<G>,
    is_over: bool,
}

enum Event {
    /// One direction is over, and the other is not.
    HalfClosed,
    /// Both are.
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

    /// Passes bytes until there is a reason not to.
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

    /// Ready once nothing more goes up; with the reason, if it is the gate's.
    fn poll_up(&mut self, cx: &mut Context<'_>) -> Poll<Option<Stop>> {
        if self.up.is_over {
            return Poll::Ready(None);
        }
        self.up.lane.poll(cx, &mut self.client, &mut self.upstream).map(|end| {
            // After a stop the lane goes on reading, for the client's Close.
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

    /// Ready once nothing more comes down. Says whether that is because the gate waited for it.
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

    /// Tells both ends that it is over, and waits for the client's Close.
    async fn part(&mut self, ended: &Ended) {
        let violation;
        let farewell = match ended {
            Ended::Limited(close) => Farewell { code: close.code, reason: &close.reason },
            Ended::Malformed(found) => {
                violation = found.to_string();
                Farewell { code: Farewell::PROTOCOL_ERROR, reason: &violation }
            }
            Ended::Idle => Farewell { code: Farewell::GOING_AWAY, reason: "Nothing was said for too long." },
            _ => Farewell { code: Farewell::GOING_AWAY, reason: "The gateway stops." },
        };
        let is_refusal = matches!(ended, Ended::Limited(_) | Ended::Malformed(_));
        if is_refusal {
            // The gate stopped between two frames. Otherwise the client's own Close goes up.
            self.up.lane.say(&Farewell { code: Farewell::GOING_AWAY, reason: "" }.to_upstream());
        }
        self.up.lane.gate.await_close();
        let mut words = self.down.lane.gate.finish().then(|| farewell.to_client());
        poll_fn(|cx| self.poll_part(cx, &mut words)).await;
        let _ = self.client.shutdown().await;
        let _ = self.upstream.shutdown().await;
    }

    fn poll_part(&mut self, cx: &mut Context<'_>, words: &mut Option<Vec<u8>>) -> Poll<()> {
        while self.poll_down(cx) == Poll::Ready(true) {
            self.down.lane.say(&words.take().unwrap_or_default());
            self.down.lane.gate.silence();
        }
        while let Poll::Ready(Some(_)) = self.poll_up(cx) {}
        let is_told = self.down.is_over || (words.is_none() && self.down.lane.is_written());
        // Where the client's frames are not read, the upstream's end says that its Close has come.
        let has_heard = self.up.is_over || (self.down.is_over && !self.up.lane.gate.is_counting());
        if is_told && has_heard { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Ticks that find a silence of `idle`.
fn looks(idle: Duration) -> Interval {
    let mut looks = interval((idle / LOOKS).max(Duration::from_millis(1)));
    // A machine that slept has not listened, so what it missed was not silence.
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks.reset(); // The first would come at once.
    looks
}

/// Returns when the gateway stops; not if whoever could say so is gone.
async fn stop(stopped: &mut watch::Receiver<bool>) {
    if stopped.wait_for(|stopped| *stopped).await.is_err() {
        std::future::pending::<()>().await;
    }
}
