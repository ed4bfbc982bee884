//! Opens connections to an upstream: names are looked up each time, so that what moves is found; TLS says
//! by ALPN which HTTP is spoken.

use super::local::LocalTasks;
use super::request_body::RequestBody;
use super::upstream::Address;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// The head of an answer may be so large.
const LARGEST_HEAD: usize = 64 << 10;
/// A silent upstream is asked whether it is there, and given up where it is not.
const PING: Duration = Duration::from_secs(20);
const PONG: Duration = Duration::from_secs(10);
/// What may be on its way from an upstream before it is read, on a stream and on a connection.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;

/// Why an upstream cannot be dialled at all.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    #[error("`{host}` is no name that a certificate can be checked for; write a host name or an address")]
    Name { host: String },
    #[error("cannot read `{}`; give `upstream_ca` a PEM file of certificates: {cause}", .path.display())]
    Authority { path: PathBuf, cause: String },
    #[error("the system has no certificates to check upstreams with; name one in `upstream_ca`")]
    NoRoots,
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
}

/// Why there is no connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoLine {
    Refused,
    TooSlow,
}

/// A connection that nobody has used yet.
pub(super) enum Fresh {
    Http1(http1::SendRequest<RequestBody>),
    Http2(http2::SendRequest<RequestBody>),
}

/// How an upstream is connected to.
pub(super) struct Dialler {
    host: String,
    port: u16,
    /// Known where the host is an address.
    fixed: Option<SocketAddr>,
    is_http2: bool,
    tls: Option<Tls>,
}

struct Tls {
    name: ServerName<'static>,
    any: TlsConnector,
    /// For upgrades, which HTTP/2 has none of.
    http1: TlsConnector,
}

/// Either kind of connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl Dialler {
    pub(super) fn new(address: &Address) -> Result<Self, DialError> {
        let of = &address.upstream;
        let fixed = of.host.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, of.port));
        let tls = of.is_tls.then(|| Tls::new(address)).transpose()?;
        Ok(Self { host: of.host.clone(), port: of.port, fixed, is_http2: address.http2, tls })
    }

    /// A connection that speaks whichever HTTP the upstream wants.
    pub(super) async fn dial(&self, most: Duration) -> Result<Fresh, NoLine> {
        // In a box: it is rare, and every connection of a client keeps room for what is not.
        let opened = Box::pin(self.open());
        match timeout(most, opened).await {
            Ok(Ok(fresh)) => Ok(fresh),
            Ok(Err(error)) => {
                tracing::debug!("`{}:{}` cannot be reached: {error}", self.host, self.port);
                Err(NoLine::Refused)
            }
            Err(_) => Err(NoLine::TooSlow),
        }
    }

    async fn open(&self) -> io::Result<Fresh> {
        let stream = self.connect().await?;
        let Some(tls) = &self.tls else {
            return if self.is_http2 { http2(stream).await } else { http1(stream).await };
        };
        let stream = tls.any.connect(tls.name.clone(), stream).await?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        if is_http2 { http2(stream).await } else { http1(stream).await }
    }

    /// A connection that speaks HTTP/1.1, as upgrades need.
    pub(super) async fn dial_http1(&self, most: Duration) -> Result<Box<dyn Stream>, NoLine> {
        let opened = async {
            let stream = self.connect().await?;
            let Some(tls) = &self.tls else { return Ok(Box::new(stream) as Box<dyn Stream>) };
            let stream = tls.http1.connect(tls.name.clone(), stream).await?;
            Ok::<_, io::Error>(Box::new(stream) as Box<dyn Stream>)
        };
        match timeout(most, opened).await {
            Ok(Ok(stream)) => Ok(stream),
            Ok(Err(_)) => Err(NoLine::Refused),
            Err(_) => Err(NoLine::TooSlow),
        }
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let stream = match self.fixed {
            Some(address) => TcpStream::connect(address).await?,
            None => TcpStream::connect((self.host.as_str(), self.port)).await?,
        };
        // A request's last part must not wait to fill a packet.
        stream.set_nodelay(true)?;
        Ok(stream)
    }
}

async fn http1(stream: impl AsyncRead + AsyncWrite + Unpin + 'static) -> io::Result<Fresh> {
    let handshake = http1::Builder::new().max_buf_size(LARGEST_HEAD).handshake(TokioIo::new(stream));
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
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW);
    let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    tokio::task::spawn_local(async move {
        if let Err(error) = connection.await {
            tracing::debug!("a connection to an upstream ended: {error}");
        }
    });
    Ok(Fresh::Http2(sender))
}

impl Tls {
    fn new(address: &Address) -> Result<Self, DialError> {
        let host = &address.upstream.host;
        let name = ServerName::try_from(host.clone());
        let name = name.map_err(|_| DialError::Name { host: host.clone() })?;
        let mut config = config(roots(address.ca.as_ref())?)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let http1 = TlsConnector::from(Arc::new(config.clone()));
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self { name, any: TlsConnector::from(Arc::new(config)), http1 })
    }
}

fn config(roots: RootCertStore) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn roots(ca: Option<&PathBuf>) -> Result<RootCertStore, DialError> {
    let mut roots = RootCertStore::empty();
    let Some(path) = ca else {
        let (added, _) = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        return if added > 0 { Ok(roots) } else { Err(DialError::NoRoots) };
    };
    let wrong = |cause: String| DialError::Authority { path: path.clone(), cause };
    let certificates = CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    if roots.is_empty() { Err(wrong("there is none in it".into())) } else { Ok(roots) }
}
