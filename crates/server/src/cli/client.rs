//! Admin API client: one request and its response over TCP, TLS or a Unix socket, bounded in time and size.

mod endpoint;
mod request;
mod response;

pub(super) use request::{AdminRequest, encoded};
pub(super) use response::AdminResponse;

use anyhow::{Context, anyhow, bail, ensure};
use bytes::Bytes;
use endpoint::AdminEndpoint;
use hivemind_tls as tls;
use http::{HeaderValue, Request, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

/// Larger than any response of the API.
const LONGEST_ANSWER: usize = 64 << 20;
/// For the whole exchange; a reload waits for disks.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);
/// A token is one line.
const LARGEST_TOKEN_FILE: u64 = 64 << 10;

/// A token file, and whether the token may be sent unencrypted.
pub(super) struct TokenFile {
    pub(super) file: PathBuf,
    pub(super) may_be_seen: bool,
}

/// A client of one service's admin port.
pub(super) struct AdminClient {
    endpoint: AdminEndpoint,
    url: String,
    token: Option<HeaderValue>,
    tls: Option<TlsConnector>,
}

impl AdminClient {
    /// Connects to `http://host:port`, `https://host:port` or `unix:PATH`. Over TLS the certificate is verified with
    /// the CAs of a file, or the system's.
    pub(super) fn at_url(url: &str, token: Option<&TokenFile>, ca: Option<&Path>) -> anyhow::Result<Self> {
        let endpoint = AdminEndpoint::parse(url)?;
        let is_tls = matches!(endpoint, AdminEndpoint::Tcp { is_tls: true, .. });
        ensure!(is_tls || ca.is_none(), "--ca needs an https URL, and `{url}` is not one");
        let tls = is_tls.then(|| tls::client_with_ca(ca)).transpose().context("--ca")?;
        let is_safe = endpoint.is_private() || token.is_none_or(|token| token.may_be_seen);
        ensure!(
            is_safe,
            "the token would be sent to {url} unencrypted; use https, or allow it with --insecure"
        );
        let token = token.map(|token| bearer(&token.file)).transpose()?;
        Ok(Self { endpoint, url: url.to_owned(), token, tls: tls.map(TlsConnector::from) })
    }

    /// Connects to an address; with a certificate file over TLS, and then exactly that certificate is accepted.
    pub(super) fn at(address: SocketAddr, certificate: Option<&Path>) -> anyhow::Result<Self> {
        let tls = certificate.map(tls::client_with_pinned_certificate).transpose()?.map(TlsConnector::from);
        let scheme = if tls.is_some() { "https" } else { "http" };
        let endpoint = AdminEndpoint::Tcp {
            host: address.ip().to_string(),
            port: address.port(),
            is_tls: tls.is_some(),
        };
        Ok(Self { endpoint, url: format!("{scheme}://{address}"), token: None, tls })
    }

    pub(super) fn at_socket(path: &Path) -> Self {
        let url = format!("unix:{}", path.display());
        Self { endpoint: AdminEndpoint::Socket(path.to_owned()), url, token: None, tls: None }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) async fn ask(&self, question: &AdminRequest) -> anyhow::Result<AdminResponse> {
        let asked = tokio::time::timeout(ANSWERED_WITHIN, self.exchange(question)).await;
        let url = &self.url;
        asked.map_err(|_| anyhow!("{url} did not answer within {} s", ANSWERED_WITHIN.as_secs()))?
    }

    async fn exchange(&self, question: &AdminRequest) -> anyhow::Result<AdminResponse> {
        let url = &self.url;
        let unreachable = |error: std::io::Error| {
            let remedy = match error.kind() {
                ErrorKind::ConnectionRefused | ErrorKind::NotFound => {
                    "nothing listens there; start `hivemind serve`, or set --url"
                }
                ErrorKind::PermissionDenied => "this user has no permission to open it",
                _ => "check that it runs and that --url is correct",
            };
            anyhow!("cannot reach {url} ({error}): {remedy}")
        };
        match &self.endpoint {
            AdminEndpoint::Socket(path) => {
                let stream = UnixStream::connect(path).await.map_err(unreachable)?;
                self.send(stream, "localhost", question).await
            }
            AdminEndpoint::Tcp { host, port, .. } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(unreachable)?;
                let shown =
                    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
                let Some(tls) = &self.tls else { return self.send(stream, &shown, question).await };
                let name = ServerName::try_from(host.clone()).context("--url")?;
                let stream = tls.connect(name, stream).await;
                let stream = stream.with_context(|| {
                    format!("{url}: the certificate is not trusted here; give its CA with --ca")
                })?;
                self.send(stream, &shown, question).await
            }
        }
    }

    async fn send(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        host: &str,
        question: &AdminRequest,
    ) -> anyhow::Result<AdminResponse> {
        let not_http = || format!("{} is not an HTTP service; check the port in --url", self.url);
        let (mut requests, connection) =
            http1::handshake(TokioIo::new(stream)).await.with_context(not_http)?;
        // The request below reports why the connection ended.
        let driver = tokio::spawn(async move { drop(connection.await) });
        let body = question.body.as_ref().map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let mut request = Request::builder()
            .method(&question.method)
            .uri(&question.target)
            .header(header::HOST, host)
            .header(header::ACCEPT, question.accept);
        if question.body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, token);
        }
        let response = requests.send_request(request.body(Full::new(body))?).await.with_context(not_http)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LONGEST_ANSWER).collect().await;
        let body = body.map_err(|error| anyhow!("incomplete response: {error}"))?.to_bytes();
        driver.abort();
        Ok(AdminResponse { status, text: String::from_utf8_lossy(&body).into_owned() })
    }
}

/// `Bearer` and the token: the first line of a file that is neither empty nor a comment.
fn bearer(file: &Path) -> anyhow::Result<HeaderValue> {
    let shown = file.display();
    let text = hivemind_config::bounded_file::read_bounded(file, LARGEST_TOKEN_FILE);
    let text = text.with_context(|| format!("--token-file {shown} cannot be read"))?;
    // Only for a readable file with content: `chmod` on a device or a folder would be wrong advice.
    if tls::is_exposed(file) {
        // If stderr is closed, the warning cannot be shown.
        let _ = writeln!(
            std::io::stderr(),
            "hivemind: --token-file: {shown} is readable by every user of this machine; fix it with `chmod 600 {shown}`"
        );
    }
    let Some(token) = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))
    else {
        bail!("--token-file {shown} contains no token; write it on the first line");
    };
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).with_context(|| {
        format!("--token-file {shown} contains characters that an HTTP header cannot carry")
    })?;
    value.set_sensitive(true);
    Ok(value)
}
