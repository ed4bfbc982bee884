//! Who calls. A caller is heard out for a while, and only so many at a time: whoever has not shown
//! a certificate and said a name by then is shown out, and learns nothing.

use super::greeting::{self, Refusal};
use super::host::Host;
use super::link::{Began, Streams};
use super::quic;
use super::session::Session;
use super::tcp;
use quinn::{Connection, Incoming};
use rustls::pki_types::CertificateDer;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinSet;

/// Handshakes of strangers that may be under way at one time.
pub(super) const HANDSHAKES: usize = 128;
/// So many of them are believed to call from where they say; past that each has to answer there first. It costs a
/// round trip, and nothing here.
const AT_THEIR_WORD: usize = 16;

impl Host {
    pub(super) async fn accept_quic(self: Arc<Self>) {
        let mut callers = JoinSet::new();
        while let Some(incoming) = self.endpoint.accept().await {
            while callers.try_join_next().is_some() {}
            let is_busy = self.handshakes.available_permits() + AT_THEIR_WORD < HANDSHAKES;
            if is_busy && !incoming.remote_address_validated() {
                let _ = incoming.retry();
                continue;
            }
            let Ok(permit) = Arc::clone(&self.handshakes).try_acquire_owned() else {
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
                // No descriptors: others will be free again.
                tokio::task::yield_now().await;
                continue;
            };
            if let Ok(permit) = Arc::clone(&self.handshakes).try_acquire_owned() {
                callers.spawn(Arc::clone(&self).hear_out_tcp(stream, remote, permit));
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
        let theirs = greeting::answer((reads, writes), &self.hello(), &chain).await?;
        Ok(Session { theirs, streams, began: Began::There, remote, chain, quic })
    }

    async fn let_in(&self, heard: Result<Session, Refusal>, remote: SocketAddr) {
        match heard {
            Ok(session) => self.serve(session).await,
            Err(refusal) => {
                self.refused.fetch_add(1, Relaxed);
                tracing::debug!(%remote, %refusal, "a caller is no peer");
            }
        }
    }
}
