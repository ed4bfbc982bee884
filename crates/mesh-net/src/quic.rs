//! QUIC transport, used by default: one connection per pair of peers. Asks have a separate stream, so a lost packet of
//! other frames does not delay them.

use super::identity::{NodeIdentity, NodeIdentityError};
use super::link::Streams;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{Connection, Endpoint, EndpointConfig, IdleTimeout, TransportConfig, VarInt};
use rustls::pki_types::CertificateDer;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

/// Idle timeout of a connection: several times the silence after which a peer is suspect.
const IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of inbound connections that wait for the acceptor; quinn refuses more.
const MAX_INCOMING: usize = 256;
/// Flow control window of one stream, in bytes.
const STREAM_WINDOW: u32 = 1 << 20;

/// An endpoint for inbound and outbound connections on one socket.
pub(super) fn endpoint(socket: UdpSocket, identity: &NodeIdentity) -> Result<Endpoint, EndpointError> {
    let transport = Arc::new(transport());
    let server = QuicServerConfig::try_from(identity.server()?).map_err(|_| EndpointError::Ciphers)?;
    let mut server = quinn::ServerConfig::with_crypto(Arc::new(server));
    server.transport_config(Arc::clone(&transport));
    // The mesh treats a peer that changes its address as restarted.
    server.migration(false);
    // Bounds the connections that wait for the acceptor, and the data buffered for them.
    server.max_incoming(MAX_INCOMING).incoming_buffer_size(1 << 16).incoming_buffer_size_total(1 << 20);
    let client = QuicClientConfig::try_from(identity.client()?).map_err(|_| EndpointError::Ciphers)?;
    let mut client = quinn::ClientConfig::new(Arc::new(client));
    client.transport_config(transport);
    let runtime = Arc::new(quinn::TokioRuntime);
    let mut endpoint = Endpoint::new(EndpointConfig::default(), Some(server), socket, runtime)?;
    endpoint.set_default_client_config(client);
    Ok(endpoint)
}

/// Why no QUIC endpoint was created.
///
/// ```
/// use hivemind_mesh_net::{EndpointError, MeshStartError};
///
/// let error = MeshStartError::from(EndpointError::Ciphers);
/// assert_eq!(error.to_string(), "QUIC cannot be set up: the TLS library has no initial cipher suite for QUIC");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// An invalid certificate or CA.
    #[error(transparent)]
    Identity(#[from] NodeIdentityError),
    /// Missing algorithms.
    #[error("the TLS library has no initial cipher suite for QUIC")]
    Ciphers,
    /// A socket error.
    #[error(transparent)]
    Socket(#[from] io::Error),
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_idle_timeout(IdleTimeout::try_from(IDLE_TIMEOUT).ok())
        .max_concurrent_bidi_streams(VarInt::from_u32(2))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(2 * STREAM_WINDOW))
        .datagram_receive_buffer_size(None);
    transport
}

/// Dials a peer.
pub(super) async fn dial(endpoint: &Endpoint, address: SocketAddr) -> io::Result<Connection> {
    // The certificate is checked against the name in the hello, because only the address is known now.
    let connecting = endpoint.connect(address, "hivemind").map_err(io::Error::other)?;
    connecting.await.map_err(io::Error::other)
}

/// Opens the first stream of an outbound connection.
pub(super) async fn open(connection: &Connection) -> io::Result<Streams> {
    let (writes, reads) = connection.open_bi().await.map_err(io::Error::other)?;
    Ok(Streams { main: (Box::new(reads), Box::new(writes)), asks: None })
}

/// Accepts the first stream of an inbound connection.
pub(super) async fn accept(connection: &Connection) -> io::Result<Streams> {
    let (writes, reads) = connection.accept_bi().await.map_err(io::Error::other)?;
    Ok(Streams { main: (Box::new(reads), Box::new(writes)), asks: None })
}

/// The peer's certificate chain.
pub(super) fn chain(connection: &Connection) -> Vec<CertificateDer<'static>> {
    let identity = connection.peer_identity().and_then(|identity| identity.downcast().ok());
    identity.map(|chain: Box<Vec<CertificateDer<'static>>>| *chain).unwrap_or_default()
}
