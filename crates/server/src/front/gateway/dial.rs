//! Opens connections to an upstream: names are looked up each time, so that what moves is found; TLS says
//! by ALPN which HTTP is spoken.

use super::brief::Brief;
use super::failure::Failure;
use super::local::LocalTasks;
use super::names::Names;
use super::request_body::RequestBody;
use super::upstream::Address;
use hivemind_tls::{TlsError, Trust, Trusted};
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

/// The head of an answer may be so large.
const LARGEST_HEAD: usize = 64 << 10;
/// A silent upstream is asked whether it is there, and given up where it is not.
const PING: Duration = Duration::from_secs(20);
const PONG: Duration = Duration::from_secs(10);
/// Streams on one connection until it is known how many the upstream takes: one too many would wait behind
/// others that may never end.
const FIRST_STREAMS: usize = 1;
/// What may be on its way from an upstream before it is read, on a stream and on a connection.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;

/// What all upstreams are reached by: whom to believe, and where names are looked up.
#[derive(Default)]
pub(super) struct Outside {
    pub(super) trust: Arc<Trust>,
    names: Arc<Names>,
}

/// Why an upstream cannot be dialled at all.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error("`{host}` is no name that a certificate can be checked for; write a host name or an address")]
    Name { host: String },
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoLine {
    #[error("{0}")]
    Refused(#[from] io::Error),
    #[error("it did not answer in time")]
    TooSlow,
}

/// What the system says where a process has as many files open as it may, and where all together have.
const OUT_OF_DESCRIPTORS: [i32; 2] = [24, 23];

impl NoLine {
    /// Whether that is this process's own fault, and says nothing of the upstream.
    pub(super) fn is_ours(&self) -> bool {
        let Self::Refused(error) = self else { return false };
        error.raw_os_error().is_some_and(|code| OUT_OF_DESCRIPTORS.contains(&code))
    }

    /// What a client is told of it.
    pub(super) const fn failure(&self) -> Failure {
        match self {
            Self::Refused(_) => Failure::UpstreamFailed,
            Self::TooSlow => Failure::UpstreamTooSlow,
        }
    }
}

/// A connection that nobody has used yet.
pub(super) enum Fresh {
    Http1(http1::SendRequest<RequestBody>),
    /// With how many streams the upstream takes, as it says.
    Http2(http2::SendRequest<RequestBody>, Arc<AtomicUsize>),
}

/// How an upstream is connected to.
pub(super) struct Dialler {
    host: String,
    port: u16,
    /// Known where the host is an address.
    fixed: Option<SocketAddr>,
    names: Arc<Names>,
    is_http2: bool,
    tls: Option<Tls>,
}

struct Tls {
    name: ServerName<'static>,
    trusted: Arc<Trusted>,
}

/// Either kind of connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl Dialler {
    pub(super) fn new(address: &Address, outside: &Outside) -> Result<Self, DialError> {
        let of = &address.upstream;
        let fixed = of.host.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, of.port));
        let tls = of.is_tls.then(|| Tls::new(address, &outside.trust)).transpose()?;
        Ok(Self {
            host: of.host.clone(),
            port: of.port,
            fixed,
            names: Arc::clone(&outside.names),
            is_http2: address.http2,
            tls,
        })
    }

    /// A connection that speaks whichever HTTP the upstream wants.
    pub(super) async fn dial(&self, most: Duration) -> Result<Fresh, NoLine> {
        // In a box: it is rare, and every connection of a client keeps room for what is not.
        let opened = Box::pin(self.open());
        timeout(most, opened).await.map_err(|_| NoLine::TooSlow)?.map_err(NoLine::Refused)
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

    /// A connection that speaks HTTP/1.1, as upgrades need.
    pub(super) async fn dial_http1(&self, most: Duration) -> Result<Box<dyn Stream>, NoLine> {
        let opened = async {
            let stream = self.connect().await?;
            let Some(tls) = &self.tls else { return Ok(Box::new(stream) as Box<dyn Stream>) };
            let stream = tls.trusted.http1().connect(tls.name.clone(), stream).await?;
            Ok::<_, io::Error>(Box::new(stream) as Box<dyn Stream>)
        };
        timeout(most, opened).await.map_err(|_| NoLine::TooSlow)?.map_err(NoLine::Refused)
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let stream = if let Some(address) = self.fixed {
            TcpStream::connect(address).await?
        } else {
            let found = self.names.addresses(&self.host, self.port).await?;
            TcpStream::connect(&*found).await?
        };
        // A request's last part must not wait to fill a packet.
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

async fn http1(stream: impl AsyncRead + AsyncWrite + Unpin + 'static) -> io::Result<Fresh> {
    let handshake = http1::Builder::new().max_buf_size(LARGEST_HEAD).handshake(TokioIo::new(Brief(stream)));
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
    let most_streams = Arc::new(AtomicUsize::new(FIRST_STREAMS));
    let told = Arc::clone(&most_streams);
    let mut connection = Box::pin(connection);
    tokio::task::spawn_local(async move {
        let ended = poll_fn(|cx| {
            let polled = connection.as_mut().poll(cx);
            told.store(connection.current_max_send_streams(), Ordering::Relaxed);
            polled
        });
        if let Err(error) = ended.await {
            tracing::debug!("a connection to an upstream ended: {error}");
        }
    });
    Ok(Fresh::Http2(sender, most_streams))
}

impl Tls {
    fn new(address: &Address, trust: &Trust) -> Result<Self, DialError> {
        let host = &address.upstream.host;
        let name = ServerName::try_from(host.clone());
        let name = name.map_err(|_| DialError::Name { host: host.clone() })?;
        Ok(Self { name, trusted: trust.of(address.ca.as_deref())? })
    }
}
