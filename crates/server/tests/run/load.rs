//! Clients that ask without a pause, and count what they are told: whatever is no answer is a failure.

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

/// What clients were told so far.
#[derive(Default)]
struct Told {
    stop: AtomicBool,
    /// By client: each has to be answered before and after.
    answers: Vec<AtomicU64>,
    failures: std::sync::Mutex<Vec<String>>,
}

/// Clients of all kinds, until they are told to stop.
pub(crate) struct Load {
    told: Arc<Told>,
    clients: JoinSet<()>,
}

/// Each kind of client twice.
const KINDS: usize = 8;
const CLIENTS: usize = 2 * KINDS;

/// The name that the gateway's certificate is for.
pub(crate) const NAME: &str = "app.example";

/// Where somebody answers requests, whose certificate it shows, if it shows one, and what it is asked.
#[derive(Clone)]
pub(crate) struct Door {
    at: SocketAddr,
    root: Option<CertificateDer<'static>>,
    name: &'static str,
    method: &'static str,
    path: &'static str,
    body: &'static str,
}

pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

impl Door {
    pub(crate) fn of_gateway(at: SocketAddr, root: Option<CertificateDer<'static>>) -> Self {
        Self { at, root, name: NAME, method: "GET", path: "/", body: "" }
    }

    /// At an admin port, whose `/json` decides as the rate limit service does.
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
    /// At a gateway, at a rate limit service, and at an admin and a metrics port.
    pub(crate) fn start(gateway: &Door, grpc: SocketAddr, [admin, metrics]: [SocketAddr; 2]) -> Self {
        let answers = std::iter::repeat_with(AtomicU64::default).take(CLIENTS).collect();
        let told = Arc::new(Told { answers, ..Told::default() });
        let mut clients = JoinSet::new();
        for client in 0..CLIENTS {
            let (told, gateway) = (Arc::clone(&told), gateway.clone());
            clients.spawn(async move {
                match client % KINDS {
                    0 => return kept(&gateway, &told, client).await,
                    1 => return streams(&gateway, &told, client).await,
                    2 => return kept(&Door::of_json(admin), &told, client).await,
                    3 => return streams(&Door::of_json(admin), &told, client).await,
                    4 => return kept(&Door::of_metrics(metrics), &told, client).await,
                    _ => {}
                }
                let endpoint = Endpoint::from_shared(format!("http://{grpc}")).unwrap();
                // One connection, which is opened anew when the service says farewell.
                let channel = endpoint.connect_lazy();
                while told.goes_on() {
                    let asked = async {
                        match client % KINDS {
                            5 => once(&gateway).await,
                            6 => call(endpoint.connect().await.map_err(text)?).await,
                            _ => call(channel.clone()).await,
                        }
                    };
                    let asked = timeout(DEADLINE, asked).await;
                    match asked.unwrap_or_else(|_| Err("no answer".to_owned())) {
                        Ok(false) => {}
                        asked => told.count(client, asked.map(drop)),
                    }
                }
            });
        }
        Self { told, clients }
    }

    /// Waits until each client has been answered so many times more.
    pub(crate) async fn go_on(&self, times: u64) {
        let so_far: Vec<u64> = self.told.answers.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        let more = async {
            for (count, before) in self.told.answers.iter().zip(so_far) {
                while count.load(Ordering::Relaxed) < before + times {
                    tokio::task::yield_now().await;
                }
            }
        };
        timeout(DEADLINE, more).await.expect("answers for every client");
    }

    /// How many answers there were, and everything that was none.
    pub(crate) async fn end(mut self) -> (u64, Vec<String>) {
        self.told.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = timeout(DEADLINE, self.clients.join_next()).await.expect("their end") {
            ended.unwrap();
        }
        let answers = self.told.answers.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        (answers, std::mem::take(&mut *self.told.failures.lock().unwrap()))
    }
}

type Asked = Result<(), String>;

impl Told {
    fn count(&self, client: usize, asked: Asked) {
        match asked {
            Ok(()) => drop(self.answers[client].fetch_add(1, Ordering::Relaxed)),
            Err(error) => self.failures.lock().unwrap().push(format!("client {client}: {error}")),
        }
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

fn text(error: impl std::fmt::Debug) -> String {
    format!("{error:?}")
}

/// A request on a connection of its own.
async fn once(gateway: &Door) -> Result<bool, String> {
    let mut stream = BufReader::new(gateway.open("http/1.1").await?);
    exchange(&mut stream, gateway, "connection: close\r\n").await.map(|_| true)
}

/// Requests on one connection until an answer says that it is the last.
async fn kept(door: &Door, told: &Told, client: usize) {
    while told.goes_on() {
        let mut stream = match door.open("http/1.1").await {
            Ok(stream) => BufReader::new(stream),
            Err(error) => {
                told.count(client, Err(error));
                continue;
            }
        };
        while told.goes_on() {
            let asked = timeout(DEADLINE, exchange(&mut stream, door, "")).await;
            let asked = asked.unwrap_or_else(|_| Err("no answer".to_owned()));
            let stays = matches!(asked, Ok(true));
            told.count(client, asked.map(drop));
            if !stays {
                break;
            }
        }
    }
}

/// Requests as streams of one HTTP/2 connection until it is told farewell.
async fn streams(door: &Door, told: &Told, client: usize) {
    while told.goes_on() {
        let opened = async {
            let (sender, connection) = h2::client::handshake(door.open("h2").await?).await.map_err(text)?;
            tokio::spawn(connection);
            Ok(sender)
        };
        let opened = timeout(DEADLINE, opened).await.unwrap_or_else(|_| Err("no connection".to_owned()));
        let mut sender = match opened {
            Ok(sender) => sender,
            Err(error) => {
                told.count(client, Err(error));
                continue;
            }
        };
        while told.goes_on() {
            let asked = timeout(DEADLINE, stream(&mut sender, door)).await;
            match asked.unwrap_or_else(|_| Err("no answer".to_owned())) {
                Ok(true) => told.count(client, Ok(())),
                Ok(false) => break,
                Err(error) => {
                    told.count(client, Err(error));
                    break;
                }
            }
        }
    }
}

/// One request; false if it was not sent, since the other side takes no more on this connection.
pub(crate) async fn stream(
    sender: &mut h2::client::SendRequest<bytes::Bytes>,
    door: &Door,
) -> Result<bool, String> {
    let is_farewell = |error: &h2::Error| error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
    let mut ready = match sender.clone().ready().await {
        Err(error) if is_farewell(&error) => return Ok(false),
        ready => ready.map_err(text)?,
    };
    let request =
        http::Request::builder().method(door.method).uri(format!("https://{}{}", door.name, door.path));
    let (response, mut sent) = match ready.send_request(request.body(()).map_err(text)?, false) {
        Err(error) if is_farewell(&error) => return Ok(false),
        sent => sent.map_err(text)?,
    };
    sent.send_data(door.body.into(), true).map_err(text)?;
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

/// Whether the connection stays.
pub(crate) async fn exchange(
    stream: &mut BufReader<Box<dyn Stream>>,
    door: &Door,
    headers: &str,
) -> Result<bool, String> {
    let Door { name, method, path, body, .. } = door;
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {name}\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.map_err(text)?;
    let (mut line, mut length, mut stays) = (String::new(), 0, true);
    stream.read_line(&mut line).await.map_err(text)?;
    if !line.starts_with("HTTP/1.1 200") {
        return Err(format!("answered with {line:?}"));
    }
    loop {
        line.clear();
        stream.read_line(&mut line).await.map_err(text)?;
        match line.trim_end().split_once(": ") {
            Some(("content-length", value)) => length = value.parse().map_err(text)?,
            Some(("connection", "close")) => stays = false,
            Some(_) => {}
            None if line == "\r\n" => break,
            None => return Err(format!("a head that ends with {line:?}")),
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.map_err(text)?;
    Ok(stays)
}

/// One call; false if it was not sent, since the other side took no more on this connection when its turn came.
async fn call(channel: tonic::transport::Channel) -> Result<bool, String> {
    match Client::new(channel).should_rate_limit(request("d", "k=x")).await {
        Ok(_) => Ok(true),
        Err(status) if is_unsent(&status) => Ok(false),
        Err(status) => Err(text(status)),
    }
}

/// Whether the call never left this process: a farewell came while it waited for its turn. Other clients of gRPC send it again
/// by themselves; tonic leaves that to whoever calls. What was sent and not answered is another error.
fn is_unsent(status: &tonic::Status) -> bool {
    let mut causes = std::iter::successors(status.source(), |error| (*error).source());
    causes.any(|error| error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_canceled))
}
