//! Acceptor of inbound connections over QUIC and TCP. A caller has a few seconds to show a valid certificate and send
//! its hello; until then it receives nothing.

use super::context::NodeContext;
use super::handshake::{self, HandshakeFailure};
use super::link::{Initiator, Streams};
use super::lock;
use super::quic;
use super::session::Session;
use super::tcp;
use quinn::{Connection, Incoming};
use rustls::pki_types::CertificateDer;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Pause after a failed accept, which usually means that no file descriptors are left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

impl NodeContext {
    /// A permit for a handshake, if one is available.
    fn permit(&self, permits: &Arc<Semaphore>, remote: SocketAddr) -> Option<OwnedSemaphorePermit> {
        let permit = |permits: &Arc<Semaphore>| Arc::clone(permits).try_acquire_owned().ok();
        permit(permits).or_else(|| {
            let is_known = lock(&self.peer_table).has_address(remote.ip().to_canonical());
            permit(&self.caller_limits.known_peers).filter(|_| is_known)
        })
    }

    pub(super) async fn accept_quic(self: Arc<Self>) {
        let mut callers = JoinSet::new();
        while let Some(incoming) = self.endpoint.accept().await {
            while callers.try_join_next().is_some() {}
            if self.caller_limits.is_busy() && !incoming.remote_address_validated() {
                let _ = incoming.retry();
                continue;
            }
            let Some(permit) = self.permit(&self.caller_limits.quic, incoming.remote_address()) else {
                self.caller_limits.record_rejection();
                incoming.refuse();
                continue;
            };
            callers.spawn(Arc::clone(&self).handle_quic_caller(incoming, permit));
        }
    }

    async fn handle_quic_caller(self: Arc<Self>, incoming: Incoming, permit: OwnedSemaphorePermit) {
        let remote = incoming.remote_address();
        let shaking_hands = async {
            let connecting = incoming.accept().map_err(io::Error::other)?;
            let connection = connecting.await.map_err(io::Error::other)?;
            let streams = quic::accept(&connection).await?;
            let chain = quic::chain(&connection);
            let mut session = self.respond(streams, chain, remote, Some(connection.clone())).await?;
            session.streams.asks = Some(quic::accept(&connection).await?.main);
            Ok(session)
        };
        let result = handshake::with_timeout(shaking_hands).await;
        drop(permit);
        self.admit(result, remote).await;
    }

    pub(super) async fn accept_tcp(self: Arc<Self>, listener: TcpListener) {
        let mut callers = JoinSet::new();
        loop {
            while callers.try_join_next().is_some() {}
            let Ok((stream, remote)) = listener.accept().await else {
                let _ = timeout(ACCEPT_RETRY_DELAY, std::future::pending::<()>()).await;
                continue;
            };
            match self.permit(&self.caller_limits.tcp, remote) {
                Some(permit) => {
                    callers.spawn(Arc::clone(&self).handle_tcp_caller(stream, remote, permit));
                }
                None => self.caller_limits.record_rejection(),
            }
        }
    }

    async fn handle_tcp_caller(
        self: Arc<Self>,
        stream: TcpStream,
        remote: SocketAddr,
        permit: OwnedSemaphorePermit,
    ) {
        let shaking_hands = async {
            let connection = tcp::accept(Arc::clone(&self.tcp_server), stream).await?;
            self.respond(connection.streams, connection.chain, remote, None).await
        };
        let result = handshake::with_timeout(shaking_hands).await;
        drop(permit);
        self.admit(result, remote).await;
    }

    /// Reads the caller's hello and answers with this node's.
    async fn respond(
        &self,
        mut streams: Streams,
        chain: Vec<CertificateDer<'static>>,
        remote: SocketAddr,
        quic: Option<Connection>,
    ) -> Result<Session, HandshakeFailure> {
        let (reads, writes) = &mut streams.main;
        let theirs = handshake::respond((reads, writes), &self.hello(false), &chain).await?;
        let (initiator, renews) = (Initiator::Remote, theirs.renews);
        Ok(Session { theirs, streams, initiator, renews, remote, chain, quic, has_hello: true })
    }

    async fn admit(&self, result: Result<Session, HandshakeFailure>, remote: SocketAddr) {
        match result {
            Ok(session) => self.serve(session).await,
            Err(HandshakeFailure::SelfConnection) => {}
            Err(refusal) => {
                self.caller_limits.record_rejection();
                if let HandshakeFailure::DuplicateName(other) = &refusal {
                    self.handle_namesake(other.generation);
                }
                // These callers hold a certificate of the CA, so a misconfiguration is likely and an attack is not.
                let is_misconfigured = matches!(
                    refusal,
                    HandshakeFailure::DuplicateName(_)
                        | HandshakeFailure::NameMismatch(_)
                        | HandshakeFailure::ClusterMismatch { .. }
                );
                if is_misconfigured && self.caller_limits.record_reason(remote.ip(), refusal.to_string()) {
                    tracing::warn!(%remote, %refusal, remedy = refusal.remedy(), "inbound connection rejected");
                } else {
                    tracing::debug!(%remote, %refusal, "inbound connection rejected");
                }
            }
        }
    }
}
