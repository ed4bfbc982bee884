//! Upstream dialer: resolves names for each connection, so that moved upstreams are found; ALPN selects the HTTP
//! version.

use super::failure::Failure;
use super::local_tasks::LocalTasks;
use super::name_lookup::NameLookup;
use super::request_body::RequestBody;
use super::short_writes::ShortWrites;
use crate::settings;
use hivemind_tls::{TlsError, TrustStore, TrustStores};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::ServerName;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Maximum size of a response head.
const LARGEST_HEAD: usize = 64 << 10;
/// An idle upstream connection is pinged, and closed if it does not answer.
const PING: Duration = Duration::from_secs(20);
const PONG: Duration = Duration::from_secs(10);
/// Streams per connection until the upstream announces its maximum: one too many would wait behind others that may
/// never end.
const FIRST_STREAMS: usize = 1;
/// Flow control windows for responses, per stream and per connection.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;

/// The identity of an upstream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct UpstreamAddress {
    pub(super) upstream: settings::UpstreamUrl,
    pub(super) http2: bool,
    pub(super) ca: Option<std::path::PathBuf>,
}

/// What all dialers share: trust anchors and name resolution.
#[derive(Default)]
pub(super) struct DialContext {
    pub(super) trust: Arc<TrustStores>,
    names: Arc<NameLookup>,
}

/// Why an upstream cannot be dialed at all.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error("`{host}` is not a valid name in a certificate; use a host name or an address")]
    Name { host: String },
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Why a connection attempt failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialFailure {
    #[error("{0}")]
    Refused(#[from] io::Error),
    #[error("timed out")]
    TooSlow,
}

/// EMFILE and ENFILE: the file descriptor limit of the process, and of the system.
const OUT_OF_DESCRIPTORS: [i32; 2] = [24, 23];

impl DialFailure {
    /// Whether the cause is this process, and not the upstream.
    pub(super) fn is_ours(&self) -> bool {
        let Self::Refused(error) = self else { return false };
        error.raw_os_error().is_some_and(|code| OUT_OF_DESCRIPTORS.contains(&code))
    }

    /// The failure that the client receives.
    pub(super) const fn failure(&self) -> Failure {
        match self {
            Self::Refused(_) => Failure::UpstreamFailed,
            Self::TooSlow => Failure::UpstreamTooSlow,
        }
    }
}

/// A new connection.
pub(super) enum Fresh {
    Http1(http1::SendRequest<RequestBody>),
    /// With the maximum number of streams that the upstream announces.
    Http2(http2::SendRequest<RequestBody>, Arc<AtomicUsize>),
}

/// Opens connections to one upstream.
pub(super) struct Dialer {
    host: String,
    port: u16,
    /// Set if the host is an address.
    fixed: Option<SocketAddr>,
    names: Arc<NameLookup>,
    is_http2: bool,
    tls: Option<UpstreamTls>,
}

struct UpstreamTls {
    name: ServerName<'static>,
    trusted: Arc<TrustStore>,
}

/// A plaintext or TLS connection.
pub(super) trait UpstreamStream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> UpstreamStream for T {}

impl Dialer {
    pub(super) fn new(address: &UpstreamAddress, dial_context: &DialContext) -> Result<Self, DialError> {
        let of = &address.upstream;
        let fixed = of.host.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, of.port));
        let tls = of.is_tls.then(|| UpstreamTls::new(address, &dial_context.trust)).transpose()?;
        Ok(Self {
            host: of.host.clone(),
            port: of.port,
            fixed,
            names: Arc::clone(&dial_context.names),
            is_http2: address.http2,
            tls,
        })
    }

    /// Opens a connection with the HTTP version of the upstream.
    pub(super) async fn dial(&self, most: Duration) -> Result<Fresh, DialFailure> {
        // Boxed, because it is rare, and client connections reserve memory for everything unboxed.
        let opened = Box::pin(self.open());
        timeout(most, opened).await.map_err(|_| DialFailure::TooSlow)?.map_err(DialFailure::Refused)
    }

    async fn open(&self) -> io::Result<Fresh> {
        let stream = self.connect().await?;
        let Some(tls) = &self.tls else {
            return if self.is_http2 { http2(stream).await } else { http1(stream).await };
        };
        let stream = tls.trusted.any().connect(tls.name.clone(), stream).await?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        if is_http2 { http2(stream).await } else { http1(stream).await }
    }

    /// Opens an HTTP/1.1 connection, for upgrades.
    pub(super) async fn dial_http1(&self, most: Duration) -> Result<Box<dyn UpstreamStream>, DialFailure> {
        let opened = async {
            let stream = self.connect().await?;
            let Some(tls) = &self.tls else { return Ok(Box::new(stream) as Box<dyn UpstreamStream>) };
            let stream = tls.trusted.http1().connect(tls.name.clone(), stream).await?;
            Ok::<_, io::Error>(Box::new(stream) as Box<dyn UpstreamStream>)
        };
        timeout(most, opened).await.map_err(|_| DialFailure::TooSlow)?.map_err(DialFailure::Refused)
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let stream = if let Some(address) = self.fixed {
            TcpStream::connect(address).await?
        } else {
            let found = self.names.addresses(&self.host, self.port).await?;
            TcpStream::connect(&*found).await?
        };
        // Without Nagle's algorithm, which would delay the end of a request.
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

async fn http1(stream: impl AsyncRead + AsyncWrite + Unpin + 'static) -> io::Result<Fresh> {
    let handshake =
        http1::Builder::new().max_buf_size(LARGEST_HEAD).handshake(TokioIo::new(ShortWrites(stream)));
    let (sender, connection) = handshake.await.map_err(io::Error::other)?;
    tokio::task::spawn_local(async move {
        if let Err(error) = connection.await {
            tracing::debug!("a connection to an upstream ended: {error}");
        }
    });
    Ok(Fresh::Http1(sender))
}

async fn http2(stream: impl AsyncRead + AsyncWrite + Unpin + 'static) -> io::Result<Fresh> {
    let mut builder = http2::Builder::new(LocalTasks);
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PONG)
        .initial_max_send_streams(FIRST_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let stream_limit = Arc::new(AtomicUsize::new(FIRST_STREAMS));
    let announced = Arc::clone(&stream_limit);
    let mut connection = Box::pin(connection);
    tokio::task::spawn_local(async move {
        let ended = poll_fn(|cx| {
            let polled = connection.as_mut().poll(cx);
            announced.store(connection.current_max_send_streams(), Ordering::Relaxed);
            polled
        });
        if let Err(error) = ended.await {
            tracing::debug!("a connection to an upstream ended: {error}");
        }
    });
    Ok(Fresh::Http2(sender, stream_limit))
}

impl UpstreamTls {
    fn new(address: &UpstreamAddress, trust: &TrustStores) -> Result<Self, DialError> {
        let host = &address.upstream.host;
        let name = ServerName::try_from(host.clone());
        let name = name.map_err(|_| DialError::Name { host: host.clone() })?;
        Ok(Self { name, trusted: trust.of(address.ca.as_deref())? })
    }
}
