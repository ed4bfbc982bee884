//! Clients of a port: curl, openssl and a gRPC caller.

use crate::proto::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use crate::{Client, Server, request, within};
use hyper_util::rt::TokioIo;
use prost::Message;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::process::Stdio;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Endpoint, Uri};
use tonic::{Code, Status};

/// The exit status and the whole output of a program.
#[derive(Debug)]
pub struct ProgramOutput {
    pub exit: Option<i32>,
    pub text: String,
}

impl ProgramOutput {
    /// The HTTP status in the output.
    pub fn code(&self) -> u16 {
        let line = self.text.lines().rfind(|line| line.starts_with("HTTP/"));
        line.and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or_else(|| panic!("{self:?}"))
    }

    /// The gRPC status of a call, from its headers or its trailers.
    pub fn grpc_status(&self) -> Code {
        let status = self.text.lines().find_map(|line| line.trim().strip_prefix("grpc-status: "));
        Code::from_i32(status.unwrap_or_else(|| panic!("{self:?}")).parse().unwrap())
    }
}

/// Runs a program with an empty standard input.
async fn run(program: &str, arguments: &[&str]) -> ProgramOutput {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    for proxy in ["http_proxy", "https_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"] {
        command.env_remove(proxy);
    }
    let output = within(program, command.output()).await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    ProgramOutput { exit: output.status.code(), text: text.into_owned() }
}

/// Runs curl and returns head, body and diagnostics.
pub async fn curl(arguments: &[&str]) -> ProgramOutput {
    run("curl", &[&["-sS", "-i", "--max-time", "15"], arguments].concat()).await
}

/// Calls `ShouldRateLimit` with curl, which has no gRPC support of its own.
pub async fn curl_call(server: &Server, scheme: &str, arguments: &[&str]) -> ProgramOutput {
    let message = request("d", "k=v").encode_to_vec();
    let mut framed = vec![0];
    framed.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    framed.extend(message);
    let body = server.path().join("message");
    std::fs::write(&body, framed).unwrap();
    let body = format!("@{}", body.display());
    let url =
        format!("{scheme}://{}/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit", server.grpc);
    let version = if scheme == "https" { "--http2" } else { "--http2-prior-knowledge" };
    let headers =
        ["-H", "content-type: application/grpc", "-H", "te: trailers", "-o", "/dev/null", "-D", "-"];
    run(
        "curl",
        &[&["-sS", "--max-time", "15", version, "--data-binary", &body, &url], &headers[..], arguments]
            .concat(),
    )
    .await
}

/// Performs a TLS handshake with openssl.
pub async fn openssl(at: SocketAddr, arguments: &[&str]) -> ProgramOutput {
    let at = at.to_string();
    run("openssl", &[&["s_client", "-connect", &at], arguments].concat()).await
}

/// A connector for connections over TLS.
#[derive(Clone)]
struct TlsService(Arc<ClientConfig>, SocketAddr);

impl tower_service::Service<Uri> for TlsService {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = std::io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Self(config, at) = self.clone();
        Box::pin(async move {
            let socket = TcpStream::connect(at).await?;
            let name = ServerName::try_from("localhost").unwrap();
            Ok(TokioIo::new(TlsConnector::from(config).connect(name, socket).await?))
        })
    }
}

/// A gRPC client over TLS, or the error of the connection attempt.
pub async fn caller(at: SocketAddr, config: Arc<ClientConfig>) -> Result<Client, tonic::transport::Error> {
    let endpoint = Endpoint::from_shared(format!("http://{at}")).unwrap();
    let channel = within("a connection", endpoint.connect_with_connector(TlsService(config, at))).await?;
    Ok(RateLimitServiceClient::new(channel))
}

/// Sends one request, with an API key if given.
pub async fn ask(client: &mut Client, domain: &str, key: Option<&str>) -> Result<(), Status> {
    let mut request_with_key = tonic::Request::new(request(domain, "k=v"));
    if let Some(key) = key {
        request_with_key.metadata_mut().insert("x-api-key", key.parse().unwrap());
    }
    within("an answer", client.should_rate_limit(request_with_key)).await.map(drop)
}
