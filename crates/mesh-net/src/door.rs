//! Who calls. A caller is heard out for a while, and only so many at a time: whoever has not shown
//! a certificate and said a name by then is shown out, and learns nothing.

use super::greeting::{self, Refusal};
use super::host::Host;
use super::link::{Began, Streams};
use super::lock;
use super::quic;
use super::session::Session;
use super::tcp;
use quinn::{Connection, Incoming};
use rustls::pki_types::CertificateDer;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Callers that are heard out at one time, by each transport. A flood of one kind leaves the other alone.
const STRANGERS: usize = 128;
/// Places for those that call from where a peer is known to be: no stranger takes them away.
const ACQUAINTANCES: usize = 64;
/// So many callers are believed to call from where they say; past that each has to answer there first. It costs a
/// round trip, and nothing here.
const AT_THEIR_WORD: usize = 16;
/// The most callers and reasons that are told of, by those that have a certificate of the CA.
const MOST_TOLD: usize = 256;
/// How long to wait when there are no descriptors left: others will be free again.
const NO_DESCRIPTORS: Duration = Duration::from_millis(50);

/// Places for callers that have not said yet who they are.
#[derive(Debug)]
pub(super) struct Door {
    quic: Arc<Semaphore>,
    tcp: Arc<Semaphore>,
    acquaintances: Arc<Semaphore>,
    refused: AtomicU64,
    /// Of whom it was told why, so that it is told once.
    told: Mutex<BTreeSet<(IpAddr, String)>>,
}

impl Default for Door {
    fn default() -> Self {
        Self {
            quic: Arc::new(Semaphore::new(STRANGERS)),
            tcp: Arc::new(Semaphore::new(STRANGERS)),
            acquaintances: Arc::new(Semaphore::new(ACQUAINTANCES)),
            refused: AtomicU64::new(0),
            told: Mutex::default(),
        }
    }
}

impl Door {
    fn is_busy(&self) -> bool {
        self.quic.available_permits() + AT_THEIR_WORD < STRANGERS
    }

    /// Callers that were no peers.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    pub(super) fn refuse(&self) {
        self.refused.fetch_add(1, Relaxed);
    }

    /// Whether it is to be told why somebody at an address is no peer: once for each reason, and not without end.
    pub(super) fn tells(&self, address: IpAddr, reason: String) -> bool {
        let mut told = lock(&self.told);
        told.len() < MOST_TOLD && told.insert((address.to_canonical(), reason))
    }
}

impl Host {
    /// A place for a caller, if there is one.
    fn place(&self, places: &Arc<Semaphore>, remote: SocketAddr) -> Option<OwnedSemaphorePermit> {
        let place = |places: &Arc<Semaphore>| Arc::clone(places).try_acquire_owned().ok();
        place(places).or_else(|| {
            let is_known = lock(&self.roster).has_at(remote.ip().to_canonical());
            place(&self.door.acquaintances).filter(|_| is_known)
        })
    }

    pub(super) async fn accept_quic(self: Arc<Self>) {
        let mut callers = JoinSet::new();
        while let Some(incoming) = self.endpoint.accept().await {
            while callers.try_join_next().is_some() {}
            if self.door.is_busy() && !incoming.remote_address_validated() {
                let _ = incoming.retry();
                continue;
            }
            let Some(permit) = self.place(&self.door.quic, incoming.remote_address()) else {
                self.door.refuse();
                incoming.refuse();
                continue;
            };
            callers.spawn(Arc::clone(&self).hear_out_quic(incoming, permit));
        }
    }

    async fn hear_out_quic(self: Arc<Self>, incoming: Incoming, permit: OwnedSemaphorePermit) {
        let remote = incoming.remote_address();
        let heard = async {
            let connecting = incoming.accept().map_err(io::Error::other)?;
            let connection = connecting.await.map_err(io::Error::other)?;
            let streams = quic::accept(&connection).await?;
            let mut session =
                self.take(streams, quic::chain(&connection), remote, Some(connection.clone())).await?;
            session.streams.asks = Some(quic::accept(&connection).await?.main);
            Ok(session)
        };
        let heard = greeting::in_time(heard).await;
        drop(permit);
        self.let_in(heard, remote).await;
    }

    pub(super) async fn accept_tcp(self: Arc<Self>, listener: TcpListener) {
        let mut callers = JoinSet::new();
        loop {
            while callers.try_join_next().is_some() {}
            let Ok((stream, remote)) = listener.accept().await else {
                let _ = timeout(NO_DESCRIPTORS, std::future::pending::<()>()).await;
                continue;
            };
            match self.place(&self.door.tcp, remote) {
                Some(permit) => drop(callers.spawn(Arc::clone(&self).hear_out_tcp(stream, remote, permit))),
                None => self.door.refuse(),
            }
        }
    }

    async fn hear_out_tcp(
        self: Arc<Self>,
        stream: TcpStream,
        remote: SocketAddr,
        permit: OwnedSemaphorePermit,
    ) {
        let heard = async {
            let connected = tcp::accept(Arc::clone(&self.tcp_server), stream).await?;
            self.take(connected.streams, connected.chain, remote, None).await
        };
        let heard = greeting::in_time(heard).await;
        drop(permit);
        self.let_in(heard, remote).await;
    }

    /// Hears whoever called say its name, and answers.
    async fn take(
        &self,
        mut streams: Streams,
        chain: Vec<CertificateDer<'static>>,
        remote: SocketAddr,
        quic: Option<Connection>,
    ) -> Result<Session, Refusal> {
        let (reads, writes) = &mut streams.main;
        let theirs = greeting::answer((reads, writes), &self.hello(false), &chain).await?;
        let renews = theirs.renews;
        Ok(Session { theirs, streams, began: Began::There, renews, remote, chain, quic, is_greeted: true })
    }

    async fn let_in(&self, heard: Result<Session, Refusal>, remote: SocketAddr) {
        match heard {
            Ok(session) => self.serve(session).await,
            Err(Refusal::Itself) => {}
            Err(refusal) => {
                self.door.refuse();
                if let Refusal::SameName(other) = &refusal {
                    self.hear_of_namesake(other.generation);
                }
                // These have a certificate of the CA: they are somebody's mistake, and no stranger's doing.
                let is_ours = matches!(
                    refusal,
                    Refusal::SameName(_) | Refusal::OtherName(_) | Refusal::OtherCluster { .. }
                );
                if is_ours && self.door.tells(remote.ip(), refusal.to_string()) {
                    tracing::warn!(%remote, %refusal, remedy = refusal.remedy(), "a caller is no peer");
                } else {
                    tracing::debug!(%remote, %refusal, "a caller is no peer");
                }
            }
        }
    }
}
