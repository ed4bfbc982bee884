//! Load generator of the demonstration: requests to all nodes, counted by the second of their decision.

use super::child::Child;
use anyhow::Context;
use bytes::Bytes;
use hivemind_core::{Clock, SystemClock, Timestamp};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

const ASK: &str = r#"{"domain":"demo","descriptors":[{"entries":[{"key":"client","value":"you"}]}]}"#;
/// No request is sent this close to the end of a second: it might be decided in the next one.
const EDGE: Duration = Duration::from_millis(50);
const SECOND: u64 = 1_000_000_000;

/// A connection to a node's admin port.
pub(super) struct Caller(SendRequest<Full<Bytes>>);

impl Caller {
    pub(super) async fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await.context("connecting to a node")?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self(sender))
    }

    pub(super) async fn call(
        &mut self,
        method: Method,
        path: &str,
        body: String,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.body(Full::new(Bytes::from(body)))?;
        self.0.ready().await?;
        let answer = self.0.send_request(request).await?;
        let status = answer.status();
        Ok((status, answer.into_body().collect().await?.to_bytes()))
    }
}

/// Counts of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RequestCounts {
    pub(super) asked: u64,
    pub(super) passed: u64,
}

impl RequestCounts {
    pub(super) fn plus(self, other: &Self) -> Self {
        Self { asked: self.asked + other.asked, passed: self.passed + other.passed }
    }
}

/// One second, per node.
#[derive(Clone, Debug)]
pub(super) struct Second {
    pub(super) at: Timestamp,
    pub(super) nodes: Vec<RequestCounts>,
}

/// The running load.
pub(super) struct Load {
    heard: mpsc::Receiver<(usize, u64, bool)>,
    seconds: BTreeMap<u64, Vec<RequestCounts>>,
    /// The first whole second that is not reported yet.
    next: u64,
    nodes: usize,
    callers: JoinSet<()>,
}

impl Load {
    /// Starts the same load at each node.
    pub(super) fn start(nodes: &[Child], rate: u32) -> Self {
        let (sender, heard) = mpsc::channel(1_024);
        let mut callers = JoinSet::new();
        let count = u32::try_from(nodes.len()).unwrap_or(1);
        let pause = Duration::from_secs(1) * count / rate.max(1);
        for (index, node) in nodes.iter().enumerate() {
            callers.spawn(keep_asking(index, node.admin, pause, sender.clone()));
        }
        let next = SystemClock.now().as_nanos() / SECOND + 1;
        Self { heard, seconds: BTreeMap::new(), next, nodes: nodes.len(), callers }
    }

    /// Returns the next complete second; `None` if a node no longer answers.
    pub(super) async fn next(&mut self) -> Option<Second> {
        loop {
            let (node, second, passed) = tokio::select! {
                heard = self.heard.recv() => heard?,
                _ = self.callers.join_next() => return None,
            };
            let counted =
                self.seconds.entry(second).or_insert_with(|| vec![RequestCounts::default(); self.nodes]);
            if let Some(counted) = counted.get_mut(node) {
                counted.asked += 1;
                counted.passed += u64::from(passed);
            }
            // Every response of a second arrives within the next one.
            if second > self.next + 1
                && let Some(nodes) = self.seconds.remove(&self.next)
            {
                let at = Timestamp::from_nanos(self.next * SECOND);
                self.next += 1;
                self.seconds.retain(|second, _| *second >= self.next);
                return Some(Second { at, nodes });
            }
        }
    }
}

/// Sends requests to one node until it stops answering.
async fn keep_asking(
    node: usize,
    address: SocketAddr,
    pause: Duration,
    sender: mpsc::Sender<(usize, u64, bool)>,
) {
    let Ok(mut caller) = Caller::connect(address).await else { return };
    let mut ticks = tokio::time::interval(pause);
    loop {
        ticks.tick().await;
        let began = SystemClock.now();
        let left = Duration::from_nanos(SECOND - began.as_nanos() % SECOND);
        if left < EDGE {
            continue;
        }
        let Ok((status, _)) = caller.call(Method::POST, "/json", ASK.to_owned()).await else { return };
        let second = began.as_nanos() / SECOND;
        // If a request crosses a second boundary, its second is unknown.
        if second == SystemClock.now().as_nanos() / SECOND
            && sender.send((node, second, status.is_success())).await.is_err()
        {
            return;
        }
    }
}
