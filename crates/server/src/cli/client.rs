//! One question to the admin port of a service, and its answer: bounded in time and in size, over TCP, TLS or a Unix socket.

mod answer;
mod place;
mod question;

pub(super) use answer::Answer;
pub(super) use question::{Question, encoded};

use anyhow::{Context, anyhow, bail, ensure};
use bytes::Bytes;
use hivemind_tls as tls;
use http::{HeaderValue, Request, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use place::Place;
use rustls::pki_types::ServerName;
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

/// No page of the API is longer.
const LONGEST_ANSWER: usize = 64 << 20;
/// For all of it; a reload waits for disks.
const ANSWERED_WITHIN: Duration = Duration::from_secs(60);
/// A token has one line.
const LARGEST_TOKEN_FILE: u64 = 64 << 10;

/// The file of a token, and whether it may go where somebody can read it on the way.
pub(super) struct Token {
    pub(super) file: PathBuf,
    pub(super) may_be_seen: bool,
}

/// Who asks a service.
pub(super) struct Client {
    place: Place,
    url: String,
    token: Option<HeaderValue>,
    tls: Option<TlsConnector>,
}

impl Client {
    /// `http://host:port`, `https://host:port` or `unix:PATH`. Over TLS its certificate is checked with the CAs of a file, or
    /// the system's.
    pub(super) fn at_url(url: &str, token: Option<&Token>, ca: Option<&Path>) -> anyhow::Result<Self> {
        let place = Place::parse(url)?;
        let is_tls = matches!(place, Place::Tcp { is_tls: true, .. });
        ensure!(is_tls || ca.is_none(), "--ca is for https; `{url}` has no certificate to check");
        let tls = is_tls.then(|| tls::caller(ca)).transpose().context("--ca")?;
        let is_safe = place.is_private() || token.is_none_or(|token| token.may_be_seen);
        ensure!(is_safe, "the token would go to {url} unencrypted; ask by https, or insist with --insecure");
        let token = token.map(|token| bearer(&token.file)).transpose()?;
        Ok(Self { place, url: url.to_owned(), token, tls: tls.map(TlsConnector::from) })
    }

    /// At an address; with a certificate's file over TLS, where that very certificate is expected.
    pub(super) fn at(address: SocketAddr, certificate: Option<&Path>) -> anyhow::Result<Self> {
        let tls = certificate.map(tls::caller_of_one).transpose()?.map(TlsConnector::from);
        let scheme = if tls.is_some() { "https" } else { "http" };
        let place =
            Place::Tcp { host: address.ip().to_string(), port: address.port(), is_tls: tls.is_some() };
        Ok(Self { place, url: format!("{scheme}://{address}"), token: None, tls })
    }

    pub(super) fn at_socket(path: &Path) -> Self {
        let url = format!("unix:{}", path.display());
        Self { place: Place::Socket(path.to_owned()), url, token: None, tls: None }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) async fn ask(&self, question: &Question) -> anyhow::Result<Answer> {
        let asked = tokio::time::timeout(ANSWERED_WITHIN, self.exchange(question)).await;
        let url = &self.url;
        asked.map_err(|_| anyhow!("{url} has not answered within {} s", ANSWERED_WITHIN.as_secs()))?
    }

    async fn exchange(&self, question: &Question) -> anyhow::Result<Answer> {
        let url = &self.url;
        let nobody = |error: std::io::Error| {
            let remedy = match error.kind() {
                ErrorKind::ConnectionRefused | ErrorKind::NotFound => {
                    "nobody listens there; start `hivemind serve`, or give --url"
                }
                ErrorKind::PermissionDenied => "this user may not open it",
                _ => "is it up, and is --url right?",
            };
            anyhow!("cannot reach {url} ({error}): {remedy}")
        };
        match &self.place {
            Place::Socket(path) => {
                let stream = UnixStream::connect(path).await.map_err(nobody)?;
                self.send(stream, "localhost", question).await
            }
            Place::Tcp { host, port, .. } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(nobody)?;
                let shown =
                    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
                let Some(tls) = &self.tls else { return self.send(stream, &shown, question).await };
                let name = ServerName::try_from(host.clone()).context("--url")?;
                let stream = tls.connect(name, stream).await;
                let stream = stream.with_context(|| {
                    format!("{url} shows no certificate that is trusted here; give its CA with --ca")
                })?;
                self.send(stream, &shown, question).await
            }
        }
    }

    async fn send(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        host: &str,
        question: &Question,
    ) -> anyhow::Result<Answer> {
        let no_http = || format!("{} is no HTTP service; is it another port?", self.url);
        let (mut requests, connection) =
            http1::handshake(TokioIo::new(stream)).await.with_context(no_http)?;
        // Why it ends is told by the request that it ends under.
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
        let response = requests.send_request(request.body(Full::new(body))?).await.with_context(no_http)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), LONGEST_ANSWER).collect().await;
        let body = body.map_err(|error| anyhow!("its answer has not come whole: {error}"))?.to_bytes();
        driver.abort();
        Ok(Answer { status, text: String::from_utf8_lossy(&body).into_owned() })
    }
}

/// `Bearer` and the first line of a file.
fn bearer(file: &Path) -> anyhow::Result<HeaderValue> {
    let shown = file.display();
    let text = hivemind_config::bounded_file::read_bounded(file, LARGEST_TOKEN_FILE);
    let text = text.with_context(|| format!("--token-file {shown} cannot be read"))?;
    // Only of a file with something in it: nobody should change who may open a device or a folder.
    if tls::is_exposed(file) {
        // With nobody left to read it, there is nobody to warn.
        let _ = writeln!(
            std::io::stderr(),
            "hivemind: --token-file: everybody on this machine can read {shown}; `chmod 600 {shown}` ends that"
        );
    }
    let Some(token) = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))
    else {
        bail!("--token-file {shown} has no token in it; write it on the first line");
    };
    let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
        .with_context(|| format!("--token-file {shown} has no token that can be sent"))?;
    value.set_sensitive(true);
    Ok(value)
}
