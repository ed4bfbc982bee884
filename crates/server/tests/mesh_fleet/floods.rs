//! Floods at the mesh port: neither decisions nor their latency change.

use crate::callers::{Shows, endpoint, speaks};
use crate::delay::Way;
use crate::fleet::{Fleet, Plan};
use crate::load::{Deal, Load};
use crate::rules::{OFFERED, RULES, no_window_is_above_the_limit, percent_admitted};
use crate::tally::Tally;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::net::{TcpStream, UdpSocket};
use tokio::task::JoinSet;

/// Datagrams for each node in each 5 ms.
const AT_ONCE: usize = 10;
/// Connections that are begun and not gone on with, for each node.
const HALF_OPEN: usize = 300;

/// Bytes that nobody would call random, and that look like nothing.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    std::iter::repeat_with(next).take(length).collect()
}

/// Datagrams of all lengths; every other one looks like the beginning of a QUIC connection.
async fn rain(nodes: Vec<SocketAddr>) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let mut ticks = tokio::time::interval(Duration::from_millis(5));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    for seed in 0.. {
        ticks.tick().await;
        for number in 0..AT_ONCE as u64 {
            let mut datagram =
                noise(seed * 64 + number, if number % 2 == 0 { 1_200 } else { 1 + (seed % 900) as usize });
            if number % 2 == 0 {
                datagram[..6].copy_from_slice(&[0xc3, 0, 0, 0, 1, 8]);
            }
            for node in &nodes {
                let _ = socket.send_to(&datagram, node).await;
            }
        }
    }
}

fn compare(what: &str, calm: &Tally, flood: &Tally) {
    let (before, during) = (calm.latency(|_| true), flood.latency(|_| true));
    println!("{what}: calm {}; {:.2} % admitted", before.shown(), percent_admitted(calm));
    println!(
        "{what}: flood {}; {:.2} % admitted: {}",
        during.shown(),
        percent_admitted(flood),
        flood.shown()
    );
    no_window_is_above_the_limit(flood);
    assert_eq!(flood.failed(), 0, "every call is answered");
    assert!(percent_admitted(flood) >= 98.0, "{}", flood.shown());
    // Both share the cores with the flood: what counts is that nobody waits for it.
    let (before, during) = (before.permille(500), during.permille(500));
    assert!(during <= 2 * before + Duration::from_millis(2), "{before:?} before, {during:?} during");
}

async fn load(fleet: &Fleet) -> Tally {
    Load::over(fleet, Deal::Uniform, OFFERED, "fast=v", 4).await
}

#[tokio::test]
async fn garbage_at_the_mesh_port_changes_neither_decisions_nor_their_latency() {
    let fleet = Plan::new(3, RULES).start().await.unwrap();
    let calm = load(&fleet).await;
    let mut floods = JoinSet::new();
    floods.spawn(rain(fleet.nodes.iter().map(|node| node.mesh).collect()));
    let flood = load(&fleet).await;
    floods.shutdown().await;
    compare("garbage", &calm, &flood);
    fleet.settled().await;
}

#[tokio::test]
async fn half_open_connections_change_neither_decisions_nor_their_latency() {
    let fleet = Plan::new(3, RULES).start().await.unwrap();
    let calm = load(&fleet).await;
    let (mut silent, mut begun, mut ways) = (Vec::new(), Vec::new(), Vec::new());
    let caller = endpoint(speaks(&fleet.authority, &Shows::Nothing));
    for node in &fleet.nodes {
        // What nodes answer does not come back to the caller: it never goes on.
        let (way, front) = Way::without_return(node.mesh).await;
        ways.push(way);
        for _ in 0..HALF_OPEN {
            begun.push(caller.connect(front, "node-0").unwrap());
            silent.push(TcpStream::connect(node.mesh).await);
        }
    }
    let flood = load(&fleet).await;
    compare("half-open", &calm, &flood);
    drop((silent, begun, ways));
    fleet.settled().await;
}
