//! Clients that send requests continuously and count responses and failures.

use hivemind_testkit::{Client, DEADLINE, request};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tonic::transport::Endpoint;

/// Responses and failures so far.
#[derive(Default)]
struct Counts {
    stop: AtomicBool,
    /// By client: each must get responses before and after the upgrade.
    answers: Vec<AtomicU64>,
    failures: std::sync::Mutex<Vec<String>>,
}

/// Clients of all kinds, until they are stopped.
pub(crate) struct Load {
    counts: Arc<Counts>,
    clients: JoinSet<()>,
}

/// Two clients of each kind.
const KINDS: usize = 8;
const CLIENTS: usize = 2 * KINDS;

/// The server name of the gateway's certificate.
pub(crate) const NAME: &str = "app.example";

/// The address of an HTTP server, the CA of its certificate if it has one, and the request for it.
#[derive(Clone)]
pub(crate) struct HttpTarget {
    at: SocketAddr,
    root: Option<CertificateDer<'static>>,
    name: &'static str,
    method: &'static str,
    path: &'static str,
    body: &'static str,
}

pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

impl HttpTarget {
    pub(crate) fn of_gateway(at: SocketAddr, root: Option<CertificateDer<'static>>) -> Self {
        Self { at, root, name: NAME, method: "GET", path: "/", body: "" }
    }

    /// The admin port, whose `/json` decides like the rate limit service.
    pub(crate) fn of_json(at: SocketAddr) -> Self {
        let body = r#"{"domain": "d", "descriptors": [{"entries": [{"key": "k", "value": "x"}]}]}"#;
        Self { at, root: None, name: "localhost", method: "POST", path: "/json", body }
    }

    pub(crate) fn of_metrics(at: SocketAddr) -> Self {
        Self { at, root: None, name: "localhost", method: "GET", path: "/metrics", body: "" }
    }

    pub(crate) async fn open(&self, protocol: &str) -> Result<Box<dyn Stream>, String> {
        let stream = TcpStream::connect(self.at).await.map_err(text)?;
        let Some(root) = self.root.clone() else { return Ok(Box::new(stream)) };
        let mut roots = RootCertStore::empty();
        roots.add(root).map_err(text)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = config.map_err(text)?.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
        let name = ServerName::try_from(NAME).map_err(text)?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(text)?;
        Ok(Box::new(stream))
    }

    pub(crate) async fn open_for_streams(&self) -> Result<h2::client::SendRequest<bytes::Bytes>, String> {
        let (sender, connection) = h2::client::handshake(self.open("h2").await?).await.map_err(text)?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

impl Load {
    /// Clients of a gateway, a rate limit service, and an admin and a metrics port.
    pub(crate) fn start(gateway: &HttpTarget, grpc: SocketAddr, [admin, metrics]: [SocketAddr; 2]) -> Self {
        let answers = std::iter::repeat_with(AtomicU64::default).take(CLIENTS).collect();
        let counts = Arc::new(Counts { answers, ..Counts::default() });
        let mut clients = JoinSet::new();
        for client in 0..CLIENTS {
            let (counts, gateway) = (Arc::clone(&counts), gateway.clone());
            clients.spawn(async move {
                match client % KINDS {
                    0 => return keep_alive(&gateway, &counts, client).await,
                    1 => return streams(&gateway, &counts, client).await,
                    2 => return keep_alive(&HttpTarget::of_json(admin), &counts, client).await,
                    3 => return streams(&HttpTarget::of_json(admin), &counts, client).await,
                    4 => return keep_alive(&HttpTarget::of_metrics(metrics), &counts, client).await,
                    _ => {}
                }
                let endpoint = Endpoint::from_shared(format!("http://{grpc}")).unwrap();
                // One connection, which is reopened after a GOAWAY.
                let channel = endpoint.connect_lazy();
                while counts.is_running() {
                    let result = async {
                        match client % KINDS {
                            5 => once(&gateway).await,
                            6 => call(endpoint.connect().await.map_err(text)?).await,
                            _ => call(channel.clone()).await,
                        }
                    };
                    let result = timeout(DEADLINE, result).await;
                    match result.unwrap_or_else(|_| Err("no answer".to_owned())) {
                        Ok(false) => {}
                        result => counts.count(client, result.map(drop)),
                    }
                }
            });
        }
        Self { counts, clients }
    }

    /// Waits until each client has got `times` more responses.
    pub(crate) async fn wait_for_responses(&self, times: u64) {
        let so_far: Vec<u64> =
            self.counts.answers.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let more = async {
            for (count, before) in self.counts.answers.iter().zip(so_far) {
                while count.load(Ordering::Relaxed) < before + times {
                    tokio::task::yield_now().await;
                }
            }
        };
        timeout(DEADLINE, more).await.expect("answers for every client");
    }

    /// The number of responses, and all failures.
    pub(crate) async fn end(mut self) -> (u64, Vec<String>) {
        self.counts.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = timeout(DEADLINE, self.clients.join_next()).await.expect("their end") {
            ended.unwrap();
        }
        let answers = self.counts.answers.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        (answers, std::mem::take(&mut *self.counts.failures.lock().unwrap()))
    }
}

type Outcome = Result<(), String>;

impl Counts {
    fn count(&self, client: usize, result: Outcome) {
        match result {
            Ok(()) => drop(self.answers[client].fetch_add(1, Ordering::Relaxed)),
            Err(error) => self.failures.lock().unwrap().push(format!("client {client}: {error}")),
        }
    }

    fn is_running(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

fn text(error: impl std::fmt::Debug) -> String {
    format!("{error:?}")
}

/// A request on a connection of its own.
async fn once(gateway: &HttpTarget) -> Result<bool, String> {
    let mut stream = BufReader::new(gateway.open("http/1.1").await?);
    exchange(&mut stream, gateway, "connection: close\r\n").await.map(|_| true)
}

/// Requests on one connection until a response closes it.
async fn keep_alive(target: &HttpTarget, counts: &Counts, client: usize) {
    while counts.is_running() {
        let mut stream = match target.open("http/1.1").await {
            Ok(stream) => BufReader::new(stream),
            Err(error) => {
                counts.count(client, Err(error));
                continue;
            }
        };
        while counts.is_running() {
            let result = timeout(DEADLINE, exchange(&mut stream, target, "")).await;
            let result = result.unwrap_or_else(|_| Err("no answer".to_owned()));
            let is_kept = matches!(result, Ok(true));
            counts.count(client, result.map(drop));
            if !is_kept {
                break;
            }
        }
    }
}

/// Requests as streams of one HTTP/2 connection until its GOAWAY.
async fn streams(target: &HttpTarget, counts: &Counts, client: usize) {
    while counts.is_running() {
        let opened = async {
            let (sender, connection) = h2::client::handshake(target.open("h2").await?).await.map_err(text)?;
            tokio::spawn(connection);
            Ok(sender)
        };
        let opened = timeout(DEADLINE, opened).await.unwrap_or_else(|_| Err("no connection".to_owned()));
        let mut sender = match opened {
            Ok(sender) => sender,
            Err(error) => {
                counts.count(client, Err(error));
                continue;
            }
        };
        while counts.is_running() {
            let result = timeout(DEADLINE, stream(&mut sender, target)).await;
            match result.unwrap_or_else(|_| Err("no answer".to_owned())) {
                Ok(true) => counts.count(client, Ok(())),
                Ok(false) => break,
                Err(error) => {
                    counts.count(client, Err(error));
                    break;
                }
            }
        }
    }
}

/// One request; false if it was not sent because the connection accepts no more.
pub(crate) async fn stream(
    sender: &mut h2::client::SendRequest<bytes::Bytes>,
    target: &HttpTarget,
) -> Result<bool, String> {
    let is_farewell = |error: &h2::Error| error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
    let mut ready = match sender.clone().ready().await {
        Err(error) if is_farewell(&error) => return Ok(false),
        ready => ready.map_err(text)?,
    };
    let request =
        http::Request::builder().method(target.method).uri(format!("https://{}{}", target.name, target.path));
    let (response, mut sent) = match ready.send_request(request.body(()).map_err(text)?, false) {
        Err(error) if is_farewell(&error) => return Ok(false),
        sent => sent.map_err(text)?,
    };
    sent.send_data(target.body.into(), true).map_err(text)?;
    let response = response.await.map_err(text)?;
    if response.status() != 200 {
        return Err(format!("answered with {}", response.status()));
    }
    let mut body = response.into_body();
    while let Some(data) = body.data().await {
        data.map_err(text)?;
    }
    Ok(true)
}

/// One request; returns whether the connection is kept open.
pub(crate) async fn exchange(
    stream: &mut BufReader<Box<dyn Stream>>,
    target: &HttpTarget,
    headers: &str,
) -> Result<bool, String> {
    let HttpTarget { name, method, path, body, .. } = target;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {name}\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.map_err(text)?;
    let (mut line, mut length, mut is_kept) = (String::new(), 0, true);
    stream.read_line(&mut line).await.map_err(text)?;
    if !line.starts_with("HTTP/1.1 200") {
        return Err(format!("answered with {line:?}"));
    }
    loop {
        line.clear();
        stream.read_line(&mut line).await.map_err(text)?;
        match line.trim_end().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().map_err(text)?,
            Some(("connection", "close")) => is_kept = false,
            Some(_) => {}
            None if line == "\r\n" => break,
            None => return Err(format!("a head that ends with {line:?}")),
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.map_err(text)?;
    Ok(is_kept)
}

/// One call; false if it was not sent because the connection accepted no more.
async fn call(channel: tonic::transport::Channel) -> Result<bool, String> {
    match Client::new(channel).should_rate_limit(request("d", "k=x")).await {
        Ok(_) => Ok(true),
        Err(status) if is_unsent(&status) => Ok(false),
        Err(status) => Err(text(status)),
    }
}

/// Whether the call never left this process: a GOAWAY arrived while it was queued. Other gRPC clients retry it
/// transparently; tonic leaves that to the caller. A call that was sent and not answered is another error.
fn is_unsent(status: &tonic::Status) -> bool {
    let mut causes = std::iter::successors(status.source(), |error| (*error).source());
    causes.any(|error| error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled))
}
