//! The usual way to a peer: one QUIC connection for each pair, with a stream for asks beside the
//! one for all else, so that a lost packet of one holds up nothing of the other.

use super::identity::{Identity, IdentityError};
use super::link::Streams;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{Connection, Endpoint, EndpointConfig, IdleTimeout, TransportConfig, VarInt};
use rustls::pki_types::CertificateDer;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

/// After which silence a connection is over: several times what a node calls unreachable.
const IDLE: Duration = Duration::from_secs(5);
/// Calls that may wait to be looked at; the rest is refused by the library.
const MOST_WAITING: usize = 256;
/// Bytes that a peer may send on one stream before they are read.
const WINDOW: u32 = 1 << 20;

/// An endpoint that takes and makes connections on one socket.
pub(super) fn endpoint(socket: UdpSocket, identity: &Identity) -> Result<Endpoint, EndpointError> {
    let transport = Arc::new(transport());
    let server = QuicServerConfig::try_from(identity.server()?).map_err(|_| EndpointError::Ciphers)?;
    let mut server = quinn::ServerConfig::with_crypto(Arc::new(server));
    server.transport_config(Arc::clone(&transport));
    // A peer that moves has died and come back as far as this mesh goes.
    server.migration(false);
    // Calls that nobody has looked at yet, and what comes with them.
    server.max_incoming(MOST_WAITING).incoming_buffer_size(1 << 16).incoming_buffer_size_total(1 << 20);
    let client = QuicClientConfig::try_from(identity.client()?).map_err(|_| EndpointError::Ciphers)?;
    let mut client = quinn::ClientConfig::new(Arc::new(client));
    client.transport_config(transport);
    let runtime = Arc::new(quinn::TokioRuntime);
    let mut endpoint = Endpoint::new(EndpointConfig::default(), Some(server), socket, runtime)?;
    endpoint.set_default_client_config(client);
    Ok(endpoint)
}

/// Why there is no endpoint.
///
/// ```
/// use hivemind_mesh_net::{EndpointError, StartError};
///
/// let error = StartError::from(EndpointError::Ciphers);
/// assert_eq!(error.to_string(), "the mesh cannot speak QUIC: no cipher that QUIC starts with");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// The certificate or the CA.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The algorithms.
    #[error("no cipher that QUIC starts with")]
    Ciphers,
    /// The socket.
    #[error(transparent)]
    Socket(#[from] io::Error),
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_idle_timeout(IdleTimeout::try_from(IDLE).ok())
        .max_concurrent_bidi_streams(VarInt::from_u32(2))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(2 * WINDOW))
        .datagram_receive_buffer_size(None);
    transport
}

/// Calls a peer, whichever it is.
pub(super) async fn dial(endpoint: &Endpoint, address: SocketAddr) -> io::Result<Connection> {
    // The name is checked once the peer has said it; what is dialled is an address.
    let connecting = endpoint.connect(address, "hivemind").map_err(io::Error::other)?;
    connecting.await.map_err(io::Error::other)
}

/// The first stream of a connection that this node began.
pub(super) async fn open(connection: &Connection) -> io::Result<Streams> {
    let (writes, reads) = connection.open_bi().await.map_err(io::Error::other)?;
    Ok(Streams { main: (Box::new(reads), Box::new(writes)), asks: None })
}

/// The first stream of a connection that a peer began.
pub(super) async fn accept(connection: &Connection) -> io::Result<Streams> {
    let (writes, reads) = connection.accept_bi().await.map_err(io::Error::other)?;
    Ok(Streams { main: (Box::new(reads), Box::new(writes)), asks: None })
}

/// The certificates that the peer has shown in the handshake.
pub(super) fn chain(connection: &Connection) -> Vec<CertificateDer<'static>> {
    let shown = connection.peer_identity().and_then(|shown| shown.downcast().ok());
    shown.map(|chain: Box<Vec<CertificateDer<'static>>>| *chain).unwrap_or_default()
}
