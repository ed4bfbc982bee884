//! A delayed network path in user space: forwards datagrams and TCP in both directions with a fixed delay,
//! because the kernel here has no delaying queue discipline.

use crate::window_time::{now, until};
use hivemind_core::Timestamp;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

/// The delayed path to one node, until it is dropped.
pub(crate) struct DelayedPath {
    _tasks: JoinSet<()>,
}

impl DelayedPath {
    /// Forwards traffic from `front` to `target` and back, with this delay in each direction.
    pub(crate) async fn open(front: SocketAddr, target: SocketAddr, takes: Duration) -> Self {
        let mut tasks = JoinSet::new();
        let datagrams = UdpSocket::bind(front).await.unwrap();
        let streams = TcpListener::bind(front).await.unwrap();
        tasks.spawn(pass_datagrams(Arc::new(datagrams), target, takes, true));
        tasks.spawn(pass_streams(streams, target, takes));
        Self { _tasks: tasks }
    }

    /// Forwards datagrams to `target` without delay and returns nothing; gives the address to send them to.
    pub(crate) async fn without_return(target: SocketAddr) -> (Self, SocketAddr) {
        let datagrams = UdpSocket::bind((std::net::Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let front = datagrams.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(pass_datagrams(Arc::new(datagrams), target, Duration::ZERO, false));
        (Self { _tasks: tasks }, front)
    }
}

/// Bytes with the time at which they are due; the delay is constant, so none overtakes another.
type Due = (Timestamp, Vec<u8>);

fn line() -> (UnboundedSender<Due>, UnboundedReceiver<Due>) {
    unbounded_channel()
}

async fn pass_datagrams(front: Arc<UdpSocket>, target: SocketAddr, takes: Duration, returns: bool) {
    let mut flows: HashMap<SocketAddr, UnboundedSender<Due>> = HashMap::new();
    let mut tasks = JoinSet::new();
    let mut datagram = vec![0; 65_536];
    // A datagram to a closed port is reported as an error of the next call.
    loop {
        let Ok((length, from)) = front.recv_from(&mut datagram).await else { continue };
        if let Entry::Vacant(flow) = flows.entry(from) {
            let back = Arc::new(UdpSocket::bind((target.ip(), 0)).await.unwrap());
            back.connect(target).await.unwrap();
            let (there, due) = line();
            tasks.spawn(deliver(due, Arc::clone(&back), None));
            if returns {
                tasks.spawn(return_datagrams(back, Arc::clone(&front), from, takes));
            }
            flow.insert(there);
        }
        let _ = flows[&from].send((now().saturating_add(takes), datagram[..length].to_vec()));
    }
}

async fn return_datagrams(back: Arc<UdpSocket>, front: Arc<UdpSocket>, to: SocketAddr, takes: Duration) {
    let (returns, due) = line();
    let mut tasks = JoinSet::new();
    tasks.spawn(deliver(due, front, Some(to)));
    let mut datagram = vec![0; 65_536];
    loop {
        let Ok(length) = back.recv(&mut datagram).await else { continue };
        let _ = returns.send((now().saturating_add(takes), datagram[..length].to_vec()));
    }
}

async fn deliver(mut due: UnboundedReceiver<Due>, socket: Arc<UdpSocket>, to: Option<SocketAddr>) {
    while let Some((at, datagram)) = due.recv().await {
        until(at).await;
        let _ = match to {
            Some(to) => socket.send_to(&datagram, to).await,
            None => socket.send(&datagram).await,
        };
    }
}

async fn pass_streams(front: TcpListener, target: SocketAddr, takes: Duration) {
    let mut tasks = JoinSet::new();
    while let Ok((near, _)) = front.accept().await {
        let Ok(far) = TcpStream::connect(target).await else { continue };
        let _ = (near.set_nodelay(true), far.set_nodelay(true));
        let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
        tasks.spawn(pump(near_in, far_out, takes));
        tasks.spawn(pump(far_in, near_out, takes));
    }
}

async fn pump(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin + Send + 'static,
    takes: Duration,
) {
    let (there, mut due) = line();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        while let Some((at, bytes)) = due.recv().await {
            until(at).await;
            if to.write_all(&bytes).await.is_err() {
                return;
            }
        }
        let _ = to.shutdown().await;
    });
    let mut bytes = vec![0; 16_384];
    while let Ok(length @ 1..) = from.read(&mut bytes).await {
        let _ = there.send((now().saturating_add(takes), bytes[..length].to_vec()));
    }
    drop(there);
    tasks.join_all().await;
}
