//! Clients that ask without a pause, and count what they are told: whatever is no answer is a failure.

use crate::support::{Client, DEADLINE, request};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;
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
const CLIENTS: usize = 8;

impl Load {
    /// At a gateway and at a rate limit service.
    pub(crate) fn start(gateway: SocketAddr, grpc: SocketAddr) -> Self {
        let answers = std::iter::repeat_with(AtomicU64::default).take(CLIENTS).collect();
        let told = Arc::new(Told { answers, ..Told::default() });
        let mut clients = JoinSet::new();
        for client in 0..CLIENTS {
            let told = Arc::clone(&told);
            clients.spawn(async move {
                if client % 4 == 0 {
                    return kept(gateway, &told, client).await;
                }
                let endpoint = Endpoint::from_shared(format!("http://{grpc}")).unwrap();
                // One connection, which is opened anew when the service says farewell.
                let channel = endpoint.connect_lazy();
                while told.goes_on() {
                    let asked = async {
                        match client % 4 {
                            1 => once(gateway).await,
                            2 => call(endpoint.connect().await.map_err(text)?).await,
                            _ => call(channel.clone()).await,
                        }
                    };
                    let asked = timeout(DEADLINE, asked).await;
                    told.count(client, asked.unwrap_or_else(|_| Err("no answer".to_owned())));
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
async fn once(gateway: SocketAddr) -> Asked {
    let mut stream = BufReader::new(TcpStream::connect(gateway).await.map_err(text)?);
    exchange(&mut stream, "connection: close\r\n").await.map(drop)
}

/// Requests on one connection until an answer says that it is the last.
async fn kept(gateway: SocketAddr, told: &Told, client: usize) {
    while told.goes_on() {
        let mut stream = match TcpStream::connect(gateway).await {
            Ok(stream) => BufReader::new(stream),
            Err(error) => {
                told.count(client, Err(text(error)));
                continue;
            }
        };
        while told.goes_on() {
            let asked = timeout(DEADLINE, exchange(&mut stream, "")).await;
            let asked = asked.unwrap_or_else(|_| Err("no answer".to_owned()));
            let stays = matches!(asked, Ok(true));
            told.count(client, asked.map(drop));
            if !stays {
                break;
            }
        }
    }
}

/// Whether the connection stays.
async fn exchange(stream: &mut BufReader<TcpStream>, headers: &str) -> Result<bool, String> {
    let head = format!("GET / HTTP/1.1\r\nhost: app.example\r\n{headers}\r\n");
    stream.write_all(head.as_bytes()).await.map_err(text)?;
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

async fn call(channel: tonic::transport::Channel) -> Asked {
    Client::new(channel).should_rate_limit(request("d", "k=x")).await.map(drop).map_err(text)
}
