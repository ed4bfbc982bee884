//! HTTPS client for ACME: one request per connection, bounded in time and size.

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::Request;
use hyper::client::conn::http1;
use hyper::header::{HOST, HeaderValue, RETRY_AFTER};
use hyper_util::rt::TokioIo;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use rustls::pki_types::ServerName;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

/// Largest accepted response; a chain has some ten thousand bytes.
pub(super) const LARGEST: usize = 1 << 20;
/// Longest `Retry-After` that is followed, in seconds.
pub(super) const LONGEST_WAIT: u64 = 86_400;
pub(super) const ANSWERED_WITHIN: Duration = Duration::from_secs(30);

type Cause = Box<dyn std::error::Error + Send + Sync>;
type Asked = Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>>;

/// HTTPS client; plain HTTP is rejected.
#[derive(Clone)]
pub(super) struct Https(TlsConnector);

impl Https {
    /// Trusts the CAs in this file, or the system's, for the directory's own certificate.
    pub(super) fn new(ca: Option<&Path>) -> Result<Self, crate::TlsError> {
        Ok(Self(crate::client_with_ca(ca)?.into()))
    }

    async fn ask(self, mut request: Request<BodyWrapper<Bytes>>) -> Result<BytesResponse, Cause> {
        let authority = request.uri().authority().filter(|_| request.uri().scheme_str() == Some("https"));
        let authority = authority.ok_or("not an https:// address")?.clone();
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let stream = TcpStream::connect((host.as_str(), authority.port_u16().unwrap_or(443))).await?;
        let stream = self.0.connect(ServerName::try_from(host)?, stream).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str()).parse()?;
        *request.uri_mut() = path;
        request.headers_mut().insert(HOST, HeaderValue::from_str(authority.as_str())?);
        let connection = tokio::spawn(connection);
        let asked = async {
            let (mut parts, body) = sender.send_request(request).await?.into_parts();
            // Clamped, because the caller adds it to a clock: a huge value would overflow and end the task.
            let wait = parts
                .headers
                .get(RETRY_AFTER)
                .and_then(|wait| wait.to_str().ok()?.trim().parse::<u64>().ok());
            if wait.is_some_and(|seconds| seconds > LONGEST_WAIT) {
                parts.headers.insert(RETRY_AFTER, HeaderValue::from(LONGEST_WAIT));
            }
            let body = Limited::new(body, LARGEST).collect().await?.to_bytes();
            Ok(BytesResponse { parts, body: Box::new(body) })
        };
        let asked: Result<BytesResponse, Cause> = asked.await;
        connection.abort();
        asked
    }
}

impl HttpClient for Https {
    fn request(&self, request: Request<BodyWrapper<Bytes>>) -> Asked {
        let place = request.uri().to_string();
        let asked = timeout(ANSWERED_WITHIN, self.clone().ask(request));
        Box::pin(async move {
            match asked.await {
                Ok(Ok(answer)) => Ok(answer),
                Ok(Err(cause)) => Err(Error::Other(format!("{place}: {cause}").into())),
                Err(_) => {
                    Err(Error::Other(format!("{place}: no response within {ANSWERED_WITHIN:?}").into()))
                }
            }
        })
    }
}
