//! The way to a peer where datagrams do not get through: TLS over TCP, with the same messages on
//! one stream.

use super::greeting::PATIENCE;
use super::link::Streams;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ServerConfig};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A connection, and the certificate that the peer has shown.
pub(super) struct Connected {
    pub(super) streams: Streams,
    pub(super) certificate: Option<CertificateDer<'static>>,
}

/// Calls a peer, whichever it is.
pub(super) async fn dial(config: Arc<ClientConfig>, address: SocketAddr) -> io::Result<Connected> {
    let dialling = async {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("hivemind").map_err(io::Error::other)?;
        let stream = TlsConnector::from(config).connect(name, stream).await?;
        let certificate = first(stream.get_ref().1.peer_certificates());
        Ok(Connected { streams: halves(stream), certificate })
    };
    tokio::time::timeout(PATIENCE, dialling).await.map_err(|_| io::ErrorKind::TimedOut)?
}

/// Shakes hands with whoever called.
pub(super) async fn accept(config: Arc<ServerConfig>, stream: TcpStream) -> io::Result<Connected> {
    stream.set_nodelay(true)?;
    let accepting = TlsAcceptor::from(config).accept(stream);
    let stream = tokio::time::timeout(PATIENCE, accepting).await.map_err(|_| io::ErrorKind::TimedOut)??;
    let certificate = first(stream.get_ref().1.peer_certificates());
    Ok(Connected { streams: halves(stream), certificate })
}

fn first(chain: Option<&[CertificateDer<'_>]>) -> Option<CertificateDer<'static>> {
    chain.and_then(|chain| chain.first()).map(|certificate| certificate.clone().into_owned())
}

fn halves(stream: impl AsyncRead + AsyncWrite + Send + 'static) -> Streams {
    let (reads, writes) = tokio::io::split(stream);
    Streams { main: (Box::new(reads), Box::new(writes)), asks: None }
}
