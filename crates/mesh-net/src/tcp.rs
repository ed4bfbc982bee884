//! TCP transport, used where QUIC fails: TLS over TCP, with all messages on one stream.

use super::link::Streams;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ServerConfig};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A connection and the peer's certificate chain.
pub(super) struct TcpConnection {
    pub(super) streams: Streams,
    pub(super) chain: Vec<CertificateDer<'static>>,
}

/// Dials a peer.
pub(super) async fn dial(config: Arc<ClientConfig>, address: SocketAddr) -> io::Result<TcpConnection> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from("hivemind").map_err(io::Error::other)?;
    let stream = TlsConnector::from(config).connect(name, stream).await?;
    let chain = owned(stream.get_ref().1.peer_certificates());
    Ok(TcpConnection { streams: halves(stream), chain })
}

/// Accepts an inbound connection.
pub(super) async fn accept(config: Arc<ServerConfig>, stream: TcpStream) -> io::Result<TcpConnection> {
    stream.set_nodelay(true)?;
    let stream = TlsAcceptor::from(config).accept(stream).await?;
    let chain = owned(stream.get_ref().1.peer_certificates());
    Ok(TcpConnection { streams: halves(stream), chain })
}

fn owned(chain: Option<&[CertificateDer<'_>]>) -> Vec<CertificateDer<'static>> {
    let chain = chain.unwrap_or_default();
    chain.iter().map(|certificate| certificate.clone().into_owned()).collect()
}

fn halves(stream: impl AsyncRead + AsyncWrite + Send + 'static) -> Streams {
    let (reads, writes) = tokio::io::split(stream);
    Streams { main: (Box::new(reads), Box::new(writes)), asks: None }
}
