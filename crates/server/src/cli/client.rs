//! A small client of the admin port, for commands: one request, one answer, bounded in time and size.

use crate::tls;
use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::{Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

/// No answer that a command shows is longer.
const LARGEST_ANSWER: usize = 64 << 10;

/// A running service, and how to reach it.
#[derive(Clone, Debug)]
pub(super) struct Service {
    way: Way,
    /// None: plaintext.
    tls: Option<Arc<ClientConfig>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Way {
    /// A host as it is written in a URL, and its port.
    Tcp(String, u16),
    Unix(PathBuf),
}

/// What it said.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) text: String,
}

impl Service {
    /// `http://host:port`, `https://host:port` or `unix:PATH`. Over TLS its certificate is checked with the CAs of a
    /// file, or the system's.
    pub(super) fn of_url(url: &str, ca: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(path) = url.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Self::at_socket(Path::new(path)));
        }
        let parsed = url.parse::<hyper::Uri>().ok();
        let parts = parsed.as_ref().and_then(|uri| Some((uri.scheme_str()?, uri.authority()?, uri.path())));
        let (is_tls, authority) = match parts {
            Some(("http", authority, "/" | "")) => (false, authority),
            Some(("https", authority, "/" | "")) => (true, authority),
            _ => bail!("`{url}` is no service; write it as http://127.0.0.1:8080 or unix:PATH"),
        };
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let tls = is_tls.then(|| tls::caller(ca)).transpose()?;
        Ok(Self { way: Way::Tcp(authority.host().to_owned(), port), tls })
    }

    /// At an address; with a certificate's file over TLS, where that very certificate is expected.
    pub(super) fn at(address: std::net::SocketAddr, certificate: Option<&Path>) -> anyhow::Result<Self> {
        let host = if address.is_ipv6() { format!("[{}]", address.ip()) } else { address.ip().to_string() };
        let tls = certificate.map(tls::caller_of_one).transpose()?;
        Ok(Self { way: Way::Tcp(host, address.port()), tls })
    }

    pub(super) fn at_socket(path: &Path) -> Self {
        Self { way: Way::Unix(path.to_owned()), tls: None }
    }

    /// Fetches a page.
    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Answer> {
        match &self.way {
            Way::Unix(socket) => {
                let stream = UnixStream::connect(socket).await?;
                exchange(stream, "localhost", path).await
            }
            Way::Tcp(host, port) => {
                let name = host.trim_start_matches('[').trim_end_matches(']');
                let stream = TcpStream::connect((name, *port)).await?;
                let authority = format!("{host}:{port}");
                let Some(config) = &self.tls else { return exchange(stream, &authority, path).await };
                let name = ServerName::try_from(name.to_owned()).context("no name for a certificate")?;
                let stream = TlsConnector::from(Arc::clone(config)).connect(name, stream).await?;
                exchange(stream, &authority, path).await
            }
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.way {
            Way::Unix(path) => write!(f, "unix:{}", path.display()),
            Way::Tcp(host, port) => {
                let scheme = if self.tls.is_some() { "https" } else { "http" };
                write!(f, "{scheme}://{host}:{port}")
            }
        }
    }
}

async fn exchange<T>(stream: T, host: &str, path: &str) -> anyhow::Result<Answer>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::get(path).header(header::HOST, host).body(Empty::<Bytes>::new())?;
    let asked = async {
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LARGEST_ANSWER).collect().await;
        let body = body.map_err(|error| anyhow::anyhow!("its answer cannot be read: {error}"))?.to_bytes();
        anyhow::Ok(Answer { status, text: String::from_utf8_lossy(&body).into_owned() })
    };
    let mut asked = std::pin::pin!(asked);
    tokio::select! { biased;
        answered = &mut asked => answered,
        // The connection may end with the answer's last byte, before that is read.
        _ = connection => asked.await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_named_by_a_url_without_a_path_or_by_its_socket() {
        for url in [
            "http://192.0.2.1:8080",
            "http://[2001:db8::1]:8080",
            "http://shop.example:80",
            "unix:/run/a.sock",
        ] {
            assert_eq!(Service::of_url(url, None).unwrap().to_string(), url);
        }
        assert_eq!(Service::of_url("http://a.example/", None).unwrap().to_string(), "http://a.example:80");
        for url in ["", "192.0.2.1:8080", "unix:", "ftp://a:1", "http://a:1/healthz", "http://"] {
            assert!(Service::of_url(url, None).is_err(), "{url}");
        }
    }
}
