//! Floods of datagrams and half-open connections at the mesh port.

use super::nodes::{Nodes, settings, start, wait_until};
use hivemind_core::{Limit, Period};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::interval;

/// Sends datagrams as fast as possible until `stop` is set: random bytes, and such that start like a QUIC connection.
fn garbage(node: SocketAddr, stop: Arc<AtomicBool>) -> std::thread::JoinHandle<u64> {
    std::thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (mut sent, mut state) = (0_u64, 1_u64);
        while !stop.load(Relaxed) {
            let mut datagram = [0_u8; 1_200];
            for byte in &mut datagram {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = state.to_be_bytes()[0];
            }
            if sent.is_multiple_of(2) {
                // An Initial packet of version 1 with an invented connection id.
                datagram[..6].copy_from_slice(&[0xc3, 0, 0, 0, 1, 8]);
            }
            sent += u64::from(socket.send_to(&datagram, node).is_ok());
            if sent.is_multiple_of(64) {
                std::thread::yield_now();
            }
        }
        sent
    })
}

/// Opens connections without sending anything.
async fn half_open(node: SocketAddr) {
    let mut ticks = interval(Duration::from_millis(50));
    loop {
        ticks.tick().await;
        if let Ok(mut stream) = TcpStream::connect(node).await {
            let _ = stream.read(&mut [0]).await;
        }
    }
}

// Fails when all callers share one limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_change_no_decision_and_block_no_peer() {
    let mut nodes = Nodes::start(2).await;
    let target = nodes.list[0].address();
    let stop = Arc::new(AtomicBool::new(false));
    let flood = garbage(target, Arc::clone(&stop));
    // More than the limit of handshakes; each rejected caller returns.
    let half_open: Vec<_> = (0..256).map(|_| tokio::spawn(half_open(target))).collect();
    let limit = Limit::fixed_window(5, Period::DAY);
    assert_eq!(nodes.admitted(20, 1, &limit).await, 5);
    let late = settings(nodes.authority.node("late"), "late", Some(target));
    nodes.list.push(start(late).await);
    nodes.wait_for_members().await;
    assert_eq!(nodes.admitted(20, 2, &limit).await, 5);
    stop.store(true, Relaxed);
    assert!(flood.join().unwrap() > 1_000);
    wait_until("they are rejected", || nodes.list[0].callers_refused() >= 256).await;
    assert_eq!(nodes.list[0].standing().unreadable, 0);
    half_open.iter().for_each(tokio::task::JoinHandle::abort);
    nodes.leave().await;
}
