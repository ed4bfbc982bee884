//! Floods at the mesh port: neither decisions nor their latency change.

use crate::callers::{Shows, endpoint, speaks};
use crate::delay::Way;
use crate::fleet::{Fleet, Plan};
use crate::load::{Deal, Load};
use crate::rules::{OFFERED, RULES, no_window_is_above_the_limit, percent_admitted};
use crate::tally::Tally;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinSet;

/// Datagrams to each place in each 10 ms.
const AT_ONCE: usize = 50;
/// Connections that are begun and not gone on with, to each place, and how often: nobody waits longer for the rest.
const HALF_OPEN: usize = 150;
const ANEW: Duration = Duration::from_secs(4);

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

async fn rain(places: Vec<SocketAddr>) {
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

/// Places like those of the nodes at which nobody answers: the same flood there costs the cores as much.
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

/// Connections that are begun, over QUIC and over TCP, and not gone on with: what the other side answers is lost.
async fn half_open(caller: quinn::Endpoint, places: Vec<SocketAddr>) {
    let (mut ways, mut anew) = (Vec::new(), tokio::time::interval(ANEW));
    for place in places {
        let (way, front) = Way::without_return(place).await;
        ways.push((way, front, place));
    }
    // Those of the last time are kept until these are begun.
    let mut before = Vec::new();
    loop {
        anew.tick().await;
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
    println!("{what} elsewhere: {}; {:.2} % admitted", before.shown(), percent_admitted(calm));
    println!(
        "{what} at the mesh: {}; {:.2} % admitted: {}",
        during.shown(),
        percent_admitted(flood),
        flood.shown()
    );
    no_window_is_above_the_limit(flood);
    assert_eq!(flood.failed(), 0, "every call is answered");
    assert!(percent_admitted(flood) >= 98.0, "{}", flood.shown());
    for (permille, more) in [(500, Duration::from_millis(2)), (990, Duration::from_millis(20))] {
        let (before, during) = (before.permille(permille), during.permille(permille));
        assert!(during <= 2 * before + more, "{permille} of 1,000: {before:?} before, {during:?} during");
    }
}

async fn load(fleet: &Fleet) -> Tally {
    Load::over(fleet, Deal::Uniform, OFFERED, "fast=v", 4).await
}

#[tokio::test]
async fn garbage_at_the_mesh_port_changes_neither_decisions_nor_their_latency() {
    let fleet = Plan::new(3, RULES).start().await.unwrap();
    let sinks = Sinks::new(3).await;
    let mut floods = JoinSet::new();
    floods.spawn(rain(sinks.places()));
    let calm = load(&fleet).await;
    floods.shutdown().await;
    floods.spawn(rain(fleet.nodes.iter().map(|node| node.mesh).collect()));
    let flood = load(&fleet).await;
    floods.shutdown().await;
    compare("garbage", &calm, &flood);
    fleet.settled().await;
}

#[tokio::test]
async fn half_open_connections_change_neither_decisions_nor_their_latency() {
    let fleet = Plan::new(3, RULES).start().await.unwrap();
    let sinks = Sinks::new(3).await;
    let caller = endpoint(speaks(&fleet.authority, &Shows::Nothing));
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
