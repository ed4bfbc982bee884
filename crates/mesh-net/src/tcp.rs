//! The way to a peer where datagrams do not get through: TLS over TCP, with the same messages on
//! one stream.

use super::link::Streams;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ServerConfig};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A connection, and the certificates that the peer has shown.
pub(super) struct Connected {
    pub(super) streams: Streams,
    pub(super) chain: Vec<CertificateDer<'static>>,
}

/// Calls a peer, whichever it is.
pub(super) async fn dial(config: Arc<ClientConfig>, address: SocketAddr) -> io::Result<Connected> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let name = ServerName::try_from("hivemind").map_err(io::Error::other)?;
    let stream = TlsConnector::from(config).connect(name, stream).await?;
    let chain = owned(stream.get_ref().1.peer_certificates());
    Ok(Connected { streams: halves(stream), chain })
}

/// Takes a peer's call.
pub(super) async fn accept(config: Arc<ServerConfig>, stream: TcpStream) -> io::Result<Connected> {
    stream.set_nodelay(true)?;
    let stream = TlsAcceptor::from(config).accept(stream).await?;
    let chain = owned(stream.get_ref().1.peer_certificates());
    Ok(Connected { streams: halves(stream), chain })
}

fn owned(chain: Option<&[CertificateDer<'_>]>) -> Vec<CertificateDer<'static>> {
    let chain = chain.unwrap_or_default();
    chain.iter().map(|certificate| certificate.clone().into_owned()).collect()
}

fn halves(stream: impl AsyncRead + AsyncWrite + Send + 'static) -> Streams {
    let (reads, writes) = tokio::io::split(stream);
    Streams { main: (Box::new(reads), Box::new(writes)), asks: None }
}
