//! Floods at the mesh port: neither decisions nor their latency change.

use crate::callers::{ClientCertificate, client_config, endpoint};
use crate::delay::DelayedPath;
use crate::fleet::{Fleet, Plan};
use crate::load::{Distribution, Load};
use crate::rules::{OFFERED, RULES, assert_no_window_above_limit, percent_admitted};
use crate::tally::Tally;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;

/// Datagrams to each address in each 10 ms.
const AT_ONCE: usize = 50;
/// Connections that are opened and then idle, per address, and how often: a node drops an unfinished handshake
/// within this time.
const HALF_OPEN: usize = 150;
const REPEAT_INTERVAL: Duration = Duration::from_secs(4);

/// Pseudo-random bytes without any structure.
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
fn garbage() -> Vec<Vec<u8>> {
    let datagram = |number: u64| {
        let is_long = number.is_multiple_of(2);
        let mut datagram = noise(number + 1, if is_long { 1_200 } else { usize::try_from(number).unwrap() });
        if is_long {
            datagram[..6].copy_from_slice(&[0xc3, 0, 0, 0, 1, 8]);
        }
        datagram
    };
    (0..500).map(datagram).collect()
}

async fn flood_datagrams(places: Vec<SocketAddr>) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let garbage = garbage();
    for group in garbage.chunks(AT_ONCE).cycle() {
        ticks.tick().await;
        for datagram in group {
            for place in &places {
                let _ = socket.send_to(datagram, place).await;
            }
        }
    }
}

/// Addresses like those of the nodes without a service: the same flood to them costs the processor as much.
struct Sinks(Vec<(UdpSocket, TcpListener)>);

impl Sinks {
    async fn new(count: usize) -> Self {
        let mut sinks = Vec::new();
        while sinks.len() < count {
            let streams = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            if let Ok(datagrams) = UdpSocket::bind(streams.local_addr().unwrap()).await {
                sinks.push((datagrams, streams));
            }
        }
        Self(sinks)
    }

    fn places(&self) -> Vec<SocketAddr> {
        self.0.iter().map(|(socket, _)| socket.local_addr().unwrap()).collect()
    }
}

/// Opens connections over QUIC and TCP and does not continue them; the other side's replies are lost.
async fn half_open(caller: quinn::Endpoint, places: Vec<SocketAddr>) {
    let (mut ways, mut repeat) = (Vec::new(), tokio::time::interval(REPEAT_INTERVAL));
    for place in places {
        let (way, front) = DelayedPath::without_return(place).await;
        ways.push((way, front, place));
    }
    // The previous ones are kept until these are opened.
    let mut before = Vec::new();
    loop {
        repeat.tick().await;
        let mut begun = Vec::new();
        for (_, front, place) in &ways {
            for _ in 0..HALF_OPEN {
                let silent = tokio::time::timeout(Duration::from_secs(1), TcpStream::connect(*place)).await;
                begun.push((caller.connect(*front, "node-0").unwrap(), silent));
            }
        }
        drop(std::mem::replace(&mut before, begun));
    }
}

fn compare(what: &str, calm: &Tally, flood: &Tally) {
    let (before, during) = (calm.latency(|_| true), flood.latency(|_| true));
    println!("{what} elsewhere: {}; {:.2} % admitted", before.summary(), percent_admitted(calm));
    println!(
        "{what} at the mesh: {}; {:.2} % admitted: {}",
        during.summary(),
        percent_admitted(flood),
        flood.summary()
    );
    assert_no_window_above_limit(flood);
    assert_eq!(flood.failed(), 0, "every call is answered");
    assert!(percent_admitted(flood) >= 98.0, "{}", flood.summary());
    for (permille, more) in [(500, Duration::from_millis(2)), (990, Duration::from_millis(20))] {
        let (before, during) = (before.permille(permille), during.permille(permille));
        assert!(during <= 2 * before + more, "{permille} of 1,000: {before:?} before, {during:?} during");
    }
}

async fn load(fleet: &Fleet) -> Tally {
    Load::over(fleet, Distribution::Uniform, OFFERED, "fast=v", 4).await
}

#[tokio::test]
async fn garbage_at_mesh_port_changes_neither_decisions_nor_latency() {
    let fleet = Plan::new(3, RULES).start().await.unwrap();
    let sinks = Sinks::new(3).await;
    let mut floods = JoinSet::new();
    floods.spawn(flood_datagrams(sinks.places()));
    let calm = load(&fleet).await;
    floods.shutdown().await;
    floods.spawn(flood_datagrams(fleet.nodes.iter().map(|node| node.mesh).collect()));
    let flood = load(&fleet).await;
    floods.shutdown().await;
    compare("garbage", &calm, &flood);
    fleet.settled().await;
}

#[tokio::test]
async fn half_open_connections_change_neither_decisions_nor_latency() {
    let fleet = Plan::new(3, RULES).start().await.unwrap();
    let sinks = Sinks::new(3).await;
    let caller = endpoint(client_config(&fleet.authority, &ClientCertificate::Nothing));
    let mut floods = JoinSet::new();
    floods.spawn(half_open(caller.clone(), sinks.places()));
    let calm = load(&fleet).await;
    floods.shutdown().await;
    floods.spawn(half_open(caller, fleet.nodes.iter().map(|node| node.mesh).collect()));
    let flood = load(&fleet).await;
    floods.shutdown().await;
    compare("half-open", &calm, &flood);
    fleet.settled().await;
}
