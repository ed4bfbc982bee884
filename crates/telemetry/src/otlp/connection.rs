//! Connection to a receiver: HTTP/2 for gRPC, HTTP/1.1 for HTTP, with or without TLS by the system's CAs.

use crate::settings::otel::{Destination, OtlpProtocol};
use bytes::Bytes;
use hivemind_tls::{TlsError, TrustStore, TrustStores};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// How to connect to a receiver.
pub(super) struct OtlpConnector {
    host: String,
    port: u16,
    protocol: OtlpProtocol,
    tls: Option<Arc<TrustStore>>,
}

/// An open connection; dropping it closes it, even during a request.
pub(super) struct OtlpConnection {
    requests: Requests,
    driver: JoinHandle<()>,
}

enum Requests {
    Http2(http2::SendRequest<Full<Bytes>>),
    Http1(http1::SendRequest<Full<Bytes>>),
}

impl Drop for OtlpConnection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl OtlpConnection {
    pub(super) fn is_open(&self) -> bool {
        match &self.requests {
            Requests::Http2(requests) => !requests.is_closed(),
            Requests::Http1(requests) => !requests.is_closed(),
        }
    }

    pub(super) async fn exchange(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<Response<Incoming>, hyper::Error> {
        match &mut self.requests {
            Requests::Http2(requests) => {
                requests.ready().await?;
                requests.send_request(request).await
            }
            Requests::Http1(requests) => {
                requests.ready().await?;
                requests.send_request(request).await
            }
        }
    }
}

impl OtlpConnector {
    /// The URL of a request over it.
    pub(super) const fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    pub(super) fn new(destination: &Destination) -> Result<Self, TlsError> {
        let endpoint = &destination.endpoint;
        Ok(Self {
            host: endpoint.host.clone(),
            port: endpoint.port,
            protocol: destination.protocol,
            tls: endpoint.is_tls.then(|| TrustStores::default().of(None)).transpose()?,
        })
    }

    pub(super) async fn connect(&self) -> io::Result<OtlpConnection> {
        let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        let Some(trusted) = &self.tls else { return self.handshake(stream).await };
        let name = ServerName::try_from(self.host.clone()).map_err(io::Error::other)?;
        match self.protocol {
            OtlpProtocol::Grpc => {
                let stream = trusted.any().connect(name, stream).await?;
                if stream.get_ref().1.alpn_protocol() == Some(b"http/1.1") {
                    return Err(io::Error::other("it does not speak HTTP/2, which gRPC needs"));
                }
                self.handshake(stream).await
            }
            OtlpProtocol::Http => self.handshake(trusted.http1().connect(name, stream).await?).await,
        }
    }

    async fn handshake(
        &self,
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    ) -> io::Result<OtlpConnection> {
        let stream = TokioIo::new(stream);
        // The request that fails with the connection reports the cause.
        Ok(match self.protocol {
            OtlpProtocol::Grpc => {
                let greeted = http2::handshake(TokioExecutor::new(), stream).await;
                let (requests, connection) = greeted.map_err(io::Error::other)?;
                let driver = tokio::spawn(async move { drop(connection.await) });
                OtlpConnection { requests: Requests::Http2(requests), driver }
            }
            OtlpProtocol::Http => {
                let greeted = http1::handshake(stream).await;
                let (requests, connection) = greeted.map_err(io::Error::other)?;
                let driver = tokio::spawn(async move { drop(connection.await) });
                OtlpConnection { requests: Requests::Http1(requests), driver }
            }
        })
    }
}
