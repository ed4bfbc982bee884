//! A connection to a peer that has said who it is, and what goes over it. Frames wait in two
//! short queues; one that finds its queue full is lost, as on any network: the state
//! machine tells its totals again, and an ask ends by its time.

use super::message::{self, Kind};
use super::traffic::Traffic;
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

/// Asks that may wait for a slow connection: they are short.
const MOST_ASKS: usize = 1_024;
/// Frames that may. They are cut at 16 KB, but for one with a whole chain of views: some 2 MB in all.
const MOST_FRAMES: usize = 128;
/// What waits is written together up to about so many bytes.
const AT_ONCE: usize = 16 * 1_024;
/// A peer speaks several times a second, if only to say that it is there.
const SILENCE: Duration = Duration::from_secs(5);

pub(super) type Reads = Box<dyn AsyncRead + Send + Unpin>;
pub(super) type Writes = Box<dyn AsyncWrite + Send + Unpin>;

/// How a peer is reached.
///
/// ```
/// use hivemind_mesh_net::Transport;
///
/// assert_eq!((Transport::Quic.as_str(), Transport::Tcp.to_string().as_str()), ("quic", "tcp"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// The usual one.
    Quic,
    /// Where datagrams do not get through.
    Tcp,
}

impl Transport {
    /// Its name, as the API and the metrics give it.
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

/// Who began a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Began {
    Here,
    There,
}

/// The streams of a connection: one for everything that has time, and one for asks where the
/// transport keeps them apart.
pub(super) struct Streams {
    pub(super) main: (Reads, Writes),
    pub(super) asks: Option<(Reads, Writes)>,
}

/// The other side of a connection.
#[derive(Debug)]
pub(super) struct Party {
    pub(super) member: Member,
    /// Where it can be called.
    pub(super) address: SocketAddr,
    pub(super) began: Began,
    /// Whether it says that this connection takes the place of any other.
    pub(super) renews: bool,
    /// The certificates that it showed, when, and until when all of them are good.
    pub(super) chain: Vec<CertificateDer<'static>>,
    pub(super) since: Timestamp,
    pub(super) until: Timestamp,
    pub(super) quic: Option<quinn::Connection>,
}

impl Party {
    pub(super) fn transport(&self) -> Transport {
        if self.quic.is_some() { Transport::Quic } else { Transport::Tcp }
    }
}

/// A connection to a peer.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) party: Party,
    traffic: Arc<Traffic>,
    asks: Sender<Vec<u8>>,
    rest: Sender<Vec<u8>>,
    closed: watch::Sender<bool>,
    /// Since when the certificates it was made with are believed no longer, by a clock that nobody sets.
    distrusted: OnceLock<Timestamp>,
}

/// The other ends of a link's queues, for whoever runs it.
pub(super) struct Queues {
    asks: Receiver<Vec<u8>>,
    rest: Receiver<Vec<u8>>,
    closed: watch::Receiver<bool>,
}

impl Link {
    pub(super) fn new(party: Party, traffic: Arc<Traffic>) -> (Self, Queues) {
        let ((asks, asked), (rest, told)) = (mpsc::channel(MOST_ASKS), mpsc::channel(MOST_FRAMES));
        let (closed, is_closed) = watch::channel(false);
        let distrusted = OnceLock::new();
        let link = Self { party, traffic, asks, rest, closed, distrusted };
        (link, Queues { asks: asked, rest: told, closed: is_closed })
    }

    pub(super) fn send(&self, lane: Lane, frame: &[u8]) {
        let (queue, kind) = match lane {
            Lane::Ask => (&self.asks, Kind::Ask),
            Lane::Sync => (&self.rest, Kind::Sync),
        };
        if queue.try_send(message::written(kind, frame)).is_err() {
            self.traffic.lost();
        }
    }

    pub(super) fn send_roster(&self, roster: &[u8]) {
        // It is told again soon.
        let _ = self.rest.try_send(message::written(Kind::Roster, roster));
    }

    /// The certificates it was made with are believed no longer.
    pub(super) fn distrust(&self) {
        let _ = self.distrusted.set(MonotonicClock.now());
    }

    /// For how long that is so.
    pub(super) fn distrusted_for(&self) -> Option<Duration> {
        self.distrusted.get().map(|since| MonotonicClock.now().since(*since))
    }

    /// Ends it, whoever runs it.
    pub(super) fn close(&self) {
        self.closed.send_replace(true);
    }

    /// Carries frames in both directions until the connection ends or is closed.
    pub(super) async fn run(
        &self,
        streams: Streams,
        queues: Queues,
        hear: impl Fn(Kind, &[u8]),
    ) -> io::Result<()> {
        let Queues { asks, rest, mut closed } = queues;
        self.traffic.connected();
        let (main_in, main_out) = streams.main;
        let hear = &hear;
        let running = async {
            match streams.asks {
                Some((asks_in, asks_out)) => tokio::try_join!(
                    self.tell(asks_out, asks, None),
                    self.listen(asks_in, hear, None),
                    self.tell(main_out, rest, None),
                    self.listen(main_in, hear, Some(SILENCE)),
                )
                .map(|_| ()),
                None => tokio::try_join!(
                    self.tell(main_out, asks, Some(rest)),
                    self.listen(main_in, hear, Some(SILENCE)),
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

    /// Hears what comes, until nothing came for too long.
    async fn listen(
        &self,
        mut stream: Reads,
        hear: &impl Fn(Kind, &[u8]),
        longest_silence: Option<Duration>,
    ) -> io::Result<()> {
        let mut body = Vec::new();
        loop {
            let next = message::read(&mut stream, &mut body, usize::MAX);
            let kind = match longest_silence {
                Some(longest) => timeout(longest, next).await.map_err(|_| io::ErrorKind::TimedOut)?,
                None => next.await,
            };
            let Some(kind) = kind? else { return Err(io::ErrorKind::UnexpectedEof.into()) };
            self.traffic.came(message::HEAD + body.len());
            hear(kind, &body);
            // However many frames have come, an ask beside them has its turn.
            tokio::task::yield_now().await;
        }
    }

    /// Writes what waits in `first`, and of `second` when there is none, or one after so much of the first.
    async fn tell(
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
            while bytes.len() < AT_ONCE
                && let Ok(more) = first.try_recv()
            {
                bytes.extend_from_slice(&more);
                frames += 1;
            }
            // Asks without end would silence totals and votes.
            if let Some(frame) = second.as_mut().and_then(|second| second.try_recv().ok()) {
                bytes.extend_from_slice(&frame);
                frames += 1;
            }
            stream.write_all(&bytes).await?;
            stream.flush().await?;
            self.traffic.went(bytes.len(), frames);
        }
    }
}

#[cfg(test)]
mod tests;
