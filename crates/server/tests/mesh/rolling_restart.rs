//! A rolling restart under load: no call fails, and no window admits more than its limit.

use hivemind_core::{Clock, SystemClock, Timestamp};
use hivemind_testkit::mesh::{MeshAuthority, Node, all_are_members};
use hivemind_testkit::{Client, overall, request, within};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;

const LIMIT: usize = 60;
const DAILY_LIMIT: usize = 600;

/// The nodes that receive calls: those that report ready, as a load balancer selects them.
#[derive(Clone, Default)]
struct Rotation(Arc<Mutex<Vec<Option<Client>>>>);

impl Rotation {
    fn set(&self, place: usize, client: Option<Client>) {
        self.0.lock().unwrap()[place] = client;
    }

    fn pick(&self, call: usize) -> Client {
        let clients = self.0.lock().unwrap();
        let there: Vec<&Client> = clients.iter().flatten().collect();
        there[call % there.len()].clone()
    }
}

/// An answered call.
struct AnsweredCall {
    began: Timestamp,
    ended: Timestamp,
    is_admitted: bool,
}

/// Sends calls in sequence, about a hundred per second, until it is stopped.
fn call(
    rotation: Rotation,
    key: &'static str,
    first: usize,
    mut stop: tokio::sync::watch::Receiver<bool>,
) -> JoinHandle<(Vec<AnsweredCall>, Vec<String>)> {
    tokio::spawn(async move {
        let (mut answered, mut failed) = (Vec::new(), Vec::new());
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        for number in first.. {
            tokio::select! { _ = ticks.tick() => {}, _ = stop.changed() => break }
            let mut client = rotation.pick(number);
            let began = SystemClock.now();
            match client.should_rate_limit(request("d", &format!("{key}=x"))).await {
                Ok(answer) => answered.push(AnsweredCall {
                    began,
                    ended: SystemClock.now(),
                    is_admitted: overall(&answer.into_inner()) == "OK",
                }),
                Err(status) => failed.push(status.to_string()),
            }
        }
        (answered, failed)
    })
}

/// The maximum admitted in one second, of calls that began and ended within it.
fn fullest(answered: &[AnsweredCall]) -> usize {
    let second = |moment: Timestamp| moment.as_nanos() / 1_000_000_000;
    let mut windows = BTreeMap::<u64, usize>::new();
    for one in answered.iter().filter(|one| one.is_admitted && second(one.began) == second(one.ended)) {
        *windows.entry(second(one.began)).or_default() += 1;
    }
    windows.into_values().max().unwrap_or(0)
}

/// The calls admitted in the whole seconds between the first call and the last, and the number of those
/// seconds.
fn used(answered: &[AnsweredCall]) -> (usize, usize) {
    let second = |moment: Timestamp| moment.as_nanos() / 1_000_000_000;
    let first = answered.iter().map(|one| second(one.began)).min().unwrap_or(0) + 1;
    let last = answered.iter().map(|one| second(one.ended)).max().unwrap_or(0);
    let within = |one: &&AnsweredCall| one.is_admitted && (first..last).contains(&second(one.began));
    (answered.iter().filter(within).count(), usize::try_from(last.saturating_sub(first)).unwrap())
}

/// A client that does not know that a node is leaving calls it until its socket closes; returns the number of
/// answered calls and the error of the next.
fn call_to_the_end(mut client: Client, text: String) -> JoinHandle<(usize, String)> {
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        for answered in 0.. {
            ticks.tick().await;
            if let Err(error) = client.should_rate_limit(request("d", &text)).await {
                return (answered, error.to_string());
            }
        }
        unreachable!("the socket never closed")
    })
}

/// A node whose timeout for owners does not exceed a caller's timeout: a caller retries once it is answered.
async fn start(authority: &MeshAuthority, index: usize, others: &[SocketAddr]) -> Node {
    let node = authority.node(&format!("node-{index}"), others);
    Node::start(node.with("mesh.ask_timeout_ms", "100")).await
}

/// Stops a node as an operator does, and starts it again.
async fn restart(authority: &MeshAuthority, nodes: &mut [Node], index: usize, rotation: &Rotation) {
    let late = call_to_the_end(nodes[index].client().await, format!("day=late-{index}"));
    nodes[index].signal("TERM").await;
    // Now every page reports that the node is not ready.
    nodes[index].log.next("leaving the mesh").await;
    rotation.set(index, None);
    assert_eq!(nodes[index].ended().await.code(), Some(0));
    let (count, error) = within("the end of its socket", late).await.unwrap();
    // Leaving takes about two seconds, in which the node still answers, with a delay if it must ask an owner.
    assert!(count >= 1, "{count} calls were answered by a node that was leaving, then: {error}");
    let log = nodes[index].log.rest().await;
    assert!(log.contains("left the mesh"), "{log}");
    let others = nodes.iter().enumerate().filter(|(other, _)| *other != index);
    let others: Vec<_> = others.map(|(_, node)| node.mesh).collect();
    nodes[index] = start(authority, index, &others).await;
    all_are_members(nodes).await;
    rotation.set(index, Some(nodes[index].client().await));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_restart_fails_no_call_and_keeps_window_limits() {
    let authority = MeshAuthority::new();
    let mut nodes = vec![start(&authority, 0, &[]).await];
    for index in 1..3 {
        let first = nodes[0].mesh;
        nodes.push(start(&authority, index, &[first]).await);
    }
    all_are_members(&nodes).await;
    let rotation = Rotation::default();
    for node in &nodes {
        let client = node.client().await;
        rotation.0.lock().unwrap().push(Some(client));
    }
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let begin = |key, first| call(rotation.clone(), key, first, stopped.clone());
    let by_second: Vec<_> = (0..3).map(|first| begin("second", first)).collect();
    let by_day: Vec<_> = (0..3).map(|first| begin("day", first)).collect();
    for index in 0..3 {
        restart(&authority, &mut nodes, index, &rotation).await;
    }
    stop.send(true).unwrap();
    let (mut answered, mut daily) = (Vec::new(), 0);
    for caller in by_second {
        let (calls, failed) = within("the last call", caller).await.unwrap();
        assert_eq!(failed, Vec::<String>::new());
        answered.extend(calls);
    }
    for caller in by_day {
        let (calls, failed) = within("the last call", caller).await.unwrap();
        assert_eq!(failed, Vec::<String>::new());
        daily += calls.iter().filter(|call| call.is_admitted).count();
    }
    assert!(fullest(&answered) <= LIMIT, "{} in a second", fullest(&answered));
    let (used, seconds) = used(&answered);
    // Calls arrive five times as fast as the limit. A node that leaves or joins costs a window a part of its
    // limit.
    let slowest = answered.iter().map(|one| one.ended.since(one.began)).max();
    assert!(
        used * 100 >= seconds * LIMIT * 80,
        "{used} of {seconds} times {LIMIT}, slowest {slowest:?} of {}",
        answered.len()
    );
    assert!(daily <= DAILY_LIMIT, "{daily} in a day");
    // The daily window of a new key, which began before the restarts.
    let mut fresh = 0;
    for call in 0..DAILY_LIMIT + 30 {
        let answer =
            rotation.pick(call).should_rate_limit(request("d", "day=fresh")).await.expect("an answer");
        fresh += usize::from(overall(&answer.into_inner()) == "OK");
    }
    assert!((DAILY_LIMIT * 9 / 10..=DAILY_LIMIT).contains(&fresh), "{fresh} of {DAILY_LIMIT} of a new key");
}
