//! Link: a connection to a peer after the handshake. Frames wait in two short queues, and a frame that finds its queue
//! full is dropped, as on any network: the state machine sends its totals again, and asks time out.

use super::message::{self, MessageKind};
use super::traffic::PeerTraffic;
use hivemind_core::{Clock, MonotonicClock, Timestamp};
use hivemind_mesh::Lane;
use hivemind_mesh::Member;
use rustls::pki_types::CertificateDer;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::watch;
use tokio::time::timeout;

/// Maximum number of queued asks, which are short.
const MAX_QUEUED_ASKS: usize = 1_024;
/// Maximum number of other queued frames: about 2 MB, because frames are split at 16 KB, except one with all views.
const MAX_QUEUED_FRAMES: usize = 128;
/// Queued messages are written together up to about this size, in bytes.
const WRITE_BATCH: usize = 16 * 1_024;
/// Timeout of reads; heartbeats arrive several times per second.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

pub(super) type Reads = Box<dyn AsyncRead + Send + Unpin>;
pub(super) type Writes = Box<dyn AsyncWrite + Send + Unpin>;

/// Transport of a connection to a peer.
///
/// ```
/// use hivemind_mesh_net::Transport;
///
/// assert_eq!((Transport::Quic.as_str(), Transport::Tcp.to_string().as_str()), ("quic", "tcp"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// QUIC, the default.
    Quic,
    /// TLS over TCP, where QUIC fails.
    Tcp,
}

impl Transport {
    /// Its name in the API and in metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Quic => "quic",
            Self::Tcp => "tcp",
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The side that dialed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Initiator {
    Local,
    Remote,
}

/// Streams of a connection. QUIC has a separate stream for asks.
pub(super) struct Streams {
    pub(super) main: (Reads, Writes),
    pub(super) asks: Option<(Reads, Writes)>,
}

/// The other side of a connection.
#[derive(Debug)]
pub(super) struct LinkPeer {
    pub(super) member: Member,
    /// The address to dial it at.
    pub(super) address: SocketAddr,
    pub(super) initiator: Initiator,
    /// Whether this connection replaces any other.
    pub(super) renews: bool,
    /// Its certificate chain, when it was received, and when its first certificate expires.
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) since: Timestamp,
    pub(super) until: Timestamp,
    pub(super) quic: Option<quinn::Connection>,
}

impl LinkPeer {
    pub(super) fn transport(&self) -> Transport {
        if self.quic.is_some() { Transport::Quic } else { Transport::Tcp }
    }
}

/// A connection to a peer.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) peer: LinkPeer,
    traffic: Arc<PeerTraffic>,
    asks: Sender<Vec<u8>>,
    rest: Sender<Vec<u8>>,
    closed: watch::Sender<bool>,
    /// Since when the certificates of the handshake are no longer trusted, by the monotonic clock.
    distrusted: OnceLock<Timestamp>,
}

/// Receivers of a link's queues, for [`Link::run`].
pub(super) struct Queues {
    asks: Receiver<Vec<u8>>,
    rest: Receiver<Vec<u8>>,
    closed: watch::Receiver<bool>,
}

impl Link {
    pub(super) fn new(peer: LinkPeer, traffic: Arc<PeerTraffic>) -> (Self, Queues) {
        let ((asks, asks_out), (rest, rest_out)) =
            (mpsc::channel(MAX_QUEUED_ASKS), mpsc::channel(MAX_QUEUED_FRAMES));
        let (closed, is_closed) = watch::channel(false);
        let distrusted = OnceLock::new();
        let link = Self { peer, traffic, asks, rest, closed, distrusted };
        (link, Queues { asks: asks_out, rest: rest_out, closed: is_closed })
    }

    pub(super) fn send(&self, lane: Lane, frame: &[u8]) {
        let (queue, kind) = match lane {
            Lane::Ask => (&self.asks, MessageKind::Ask),
            Lane::Sync => (&self.rest, MessageKind::Sync),
        };
        if queue.try_send(message::encode(kind, frame)).is_err() {
            self.traffic.record_lost();
        }
    }

    pub(super) fn send_gossip(&self, message: &[u8]) {
        // A lost message is sent again soon.
        let _ = self.rest.try_send(message::encode(MessageKind::Gossip, message));
    }

    /// Marks the certificates of the handshake as no longer trusted.
    pub(super) fn distrust(&self) {
        let _ = self.distrusted.set(MonotonicClock.now());
    }

    /// How long they have not been trusted.
    pub(super) fn distrusted_for(&self) -> Option<Duration> {
        self.distrusted.get().map(|since| MonotonicClock.now().since(*since))
    }

    /// Ends [`Link::run`].
    pub(super) fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Transfers messages in both directions until the connection ends or is closed.
    pub(super) async fn run(
        &self,
        streams: Streams,
        queues: Queues,
        on_message: impl Fn(MessageKind, &[u8]),
    ) -> io::Result<()> {
        let Queues { asks, rest, mut closed } = queues;
        self.traffic.record_connection();
        let (main_in, main_out) = streams.main;
        let on_message = &on_message;
        let running = async {
            match streams.asks {
                Some((asks_in, asks_out)) => tokio::try_join!(
                    self.write_frames(asks_out, asks, None),
                    self.read_frames(asks_in, on_message, None),
                    self.write_frames(main_out, rest, None),
                    self.read_frames(main_in, on_message, Some(READ_TIMEOUT)),
                )
                .map(|_| ()),
                None => tokio::try_join!(
                    self.write_frames(main_out, asks, Some(rest)),
                    self.read_frames(main_in, on_message, Some(READ_TIMEOUT)),
                )
                .map(|_| ()),
            }
        };
        tokio::select! {
            biased;
            _ = closed.wait_for(|closed| *closed) => Ok(()),
            ended = running => ended,
        }
    }

    /// Reads messages until the stream ends or the timeout passes.
    async fn read_frames(
        &self,
        mut stream: Reads,
        on_message: &impl Fn(MessageKind, &[u8]),
        read_timeout: Option<Duration>,
    ) -> io::Result<()> {
        let mut body = Vec::new();
        loop {
            let next = message::read(&mut stream, &mut body, usize::MAX);
            let kind = match read_timeout {
                Some(longest) => timeout(longest, next).await.map_err(|_| io::ErrorKind::TimedOut)?,
                None => next.await,
            };
            let Some(kind) = kind? else { return Err(io::ErrorKind::UnexpectedEof.into()) };
            self.traffic.record_received(message::HEADER_LEN + body.len());
            on_message(kind, &body);
            // Many frames in a row must not delay the stream of asks.
            tokio::task::yield_now().await;
        }
    }

    /// Writes messages of `first` with priority, and after each batch one of `second`.
    async fn write_frames(
        &self,
        mut stream: Writes,
        mut first: Receiver<Vec<u8>>,
        mut second: Option<Receiver<Vec<u8>>>,
    ) -> io::Result<()> {
        loop {
            let next = match &mut second {
                None => first.recv().await,
                Some(second) => tokio::select! {
                    biased;
                    next = first.recv() => next,
                    next = second.recv() => next,
                },
            };
            let Some(mut bytes) = next else { return Ok(()) };
            let mut frames = 1;
            while bytes.len() < WRITE_BATCH
                && let Ok(more) = first.try_recv()
            {
                bytes.extend_from_slice(&more);
                frames += 1;
            }
            // A flood of asks must not block totals and votes.
            if let Some(frame) = second.as_mut().and_then(|second| second.try_recv().ok()) {
                bytes.extend_from_slice(&frame);
                frames += 1;
            }
            stream.write_all(&bytes).await?;
            stream.flush().await?;
            self.traffic.record_sent(bytes.len(), frames);
        }
    }
}

#[cfg(test)]
mod tests;
