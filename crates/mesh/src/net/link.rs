//! A connection to a peer that has said who it is, and what goes over it. Frames wait in two
//! short queues; one that finds its queue full is lost, as on any network: the state
//! machine tells its totals again, and an ask ends by its time.

use super::message::{self, Kind};
use crate::member::Member;
use crate::node::Lane;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::sync::watch;

/// Frames that may wait for a slow connection, of each lane.
const LONGEST_QUEUE: usize = 1_024;
/// A peer speaks several times a second, if only to say that it is there.
const SILENCE: Duration = Duration::from_secs(5);

pub(super) type Reads = Box<dyn AsyncRead + Send + Unpin>;
pub(super) type Writes = Box<dyn AsyncWrite + Send + Unpin>;

/// How a peer is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// The usual one.
    Quic,
    /// Where datagrams do not get through.
    Tcp,
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

/// A connection to a peer.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) peer: Member,
    /// Where it can be called.
    pub(super) address: SocketAddr,
    pub(super) transport: Transport,
    pub(super) began: Began,
    pub(super) quic: Option<quinn::Connection>,
    asks: Sender<Vec<u8>>,
    rest: Sender<Vec<u8>>,
    pub(super) bytes_in: AtomicU64,
    pub(super) bytes_out: AtomicU64,
    pub(super) lost: AtomicU64,
    closed: watch::Sender<bool>,
}

/// The other ends of a link's queues, for whoever runs it.
pub(super) struct Queues {
    asks: Receiver<Vec<u8>>,
    rest: Receiver<Vec<u8>>,
    closed: watch::Receiver<bool>,
}

impl Link {
    pub(super) fn new(
        peer: Member,
        address: SocketAddr,
        transport: Transport,
        began: Began,
        quic: Option<quinn::Connection>,
    ) -> (Self, Queues) {
        let ((asks, asked), (rest, told)) = (mpsc::channel(LONGEST_QUEUE), mpsc::channel(LONGEST_QUEUE));
        let (closed, is_closed) = watch::channel(false);
        let (bytes_in, bytes_out, lost) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let link =
            Self { peer, address, transport, began, quic, asks, rest, bytes_in, bytes_out, lost, closed };
        (link, Queues { asks: asked, rest: told, closed: is_closed })
    }

    pub(super) fn send(&self, lane: Lane, frame: &[u8]) {
        let (queue, kind) = match lane {
            Lane::Ask => (&self.asks, Kind::Ask),
            Lane::Sync => (&self.rest, Kind::Sync),
        };
        if queue.try_send(message::written(kind, frame)).is_err() {
            self.lost.fetch_add(1, Relaxed);
        }
    }

    pub(super) fn send_roster(&self, roster: &[u8]) {
        // It is told again soon.
        let _ = self.rest.try_send(message::written(Kind::Roster, roster));
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
        mut hear: impl FnMut(Kind, &[u8]),
    ) -> std::io::Result<()> {
        let Queues { asks, rest, mut closed } = queues;
        let (heard, mut inbox) = mpsc::channel::<(Kind, Vec<u8>)>(LONGEST_QUEUE);
        let (main_in, main_out) = streams.main;
        let running = async {
            match streams.asks {
                Some((asks_in, asks_out)) => {
                    let reading = [self.listen(main_in, heard.clone()), self.listen(asks_in, heard)];
                    let [main, aside] = reading;
                    tokio::try_join!(
                        main,
                        aside,
                        self.tell(main_out, rest, None),
                        self.tell(asks_out, asks, None)
                    )
                    .map(|_| ())
                }
                None => tokio::try_join!(self.listen(main_in, heard), self.tell(main_out, asks, Some(rest)))
                    .map(|_| ()),
            }
        };
        tokio::pin!(running);
        loop {
            tokio::select! {
                biased;
                _ = closed.wait_for(|closed| *closed) => return Ok(()),
                next = tokio::time::timeout(SILENCE, inbox.recv()) => match next {
                    Ok(Some((kind, body))) => hear(kind, &body),
                    Ok(None) => return Ok(()),
                    Err(_) => return Err(std::io::ErrorKind::TimedOut.into()),
                },
                ended = &mut running => return ended,
            }
        }
    }

    async fn listen(&self, mut stream: Reads, heard: Sender<(Kind, Vec<u8>)>) -> std::io::Result<()> {
        let mut body = Vec::new();
        while let Some(kind) = message::read(&mut stream, &mut body, usize::MAX).await? {
            self.bytes_in.fetch_add(body.len() as u64 + 5, Relaxed);
            if heard.send((kind, std::mem::take(&mut body))).await.is_err() {
                break;
            }
        }
        Err(std::io::ErrorKind::UnexpectedEof.into())
    }

    /// Writes what waits in `first`, and of `second` when there is none.
    async fn tell(
        &self,
        mut stream: Writes,
        mut first: Receiver<Vec<u8>>,
        second: Option<Receiver<Vec<u8>>>,
    ) -> std::io::Result<()> {
        let mut second = second;
        loop {
            let next = match &mut second {
                None => first.recv().await,
                Some(second) => tokio::select! {
                    biased;
                    next = first.recv() => next,
                    next = second.recv() => next,
                },
            };
            let Some(bytes) = next else { return Ok(()) };
            stream.write_all(&bytes).await?;
            stream.flush().await?;
            self.bytes_out.fetch_add(bytes.len() as u64, Relaxed);
        }
    }
}
