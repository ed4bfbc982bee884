//! Every node restarted, one after the other, while calls come: none fails, and no window admits more than its limit.

use hivemind_core::{Clock, SystemClock, Timestamp};
use hivemind_testkit::mesh::{MeshAuthority, Node, all_are_members};
use hivemind_testkit::{Client, overall, request, within};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinHandle;

const LIMIT: usize = 60;
const OF_A_DAY: usize = 600;

/// The nodes that calls go to: as a balancer has it, those that say that they are ready.
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

/// A call that was answered.
struct Told {
    began: Timestamp,
    ended: Timestamp,
    is_admitted: bool,
}

/// Calls one after the other, about a hundred in a second, until it is told to stop.
fn call(
    rotation: Rotation,
    key: &'static str,
    first: usize,
    mut stop: tokio::sync::watch::Receiver<bool>,
) -> JoinHandle<(Vec<Told>, Vec<String>)> {
    tokio::spawn(async move {
        let (mut told, mut failed) = (Vec::new(), Vec::new());
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        for number in first.. {
            tokio::select! { _ = ticks.tick() => {}, _ = stop.changed() => break }
            let mut client = rotation.pick(number);
            let began = SystemClock.now();
            match client.should_rate_limit(request("d", &format!("{key}=x"))).await {
                Ok(answer) => told.push(Told {
                    began,
                    ended: SystemClock.now(),
                    is_admitted: overall(&answer.into_inner()) == "OK",
                }),
                Err(status) => failed.push(status.to_string()),
            }
        }
        (told, failed)
    })
}

/// The most that a second admitted of what was both asked and answered within it.
fn fullest(told: &[Told]) -> usize {
    let second = |moment: Timestamp| moment.as_nanos() / 1_000_000_000;
    let mut windows = BTreeMap::<u64, usize>::new();
    for one in told.iter().filter(|one| one.is_admitted && second(one.began) == second(one.ended)) {
        *windows.entry(second(one.began)).or_default() += 1;
    }
    windows.into_values().max().unwrap_or(0)
}

/// What was admitted in the whole seconds from the first call to the last, and how many they are.
fn used(told: &[Told]) -> (usize, usize) {
    let second = |moment: Timestamp| moment.as_nanos() / 1_000_000_000;
    let first = told.iter().map(|one| second(one.began)).min().unwrap_or(0) + 1;
    let last = told.iter().map(|one| second(one.ended)).max().unwrap_or(0);
    let within = |one: &&Told| one.is_admitted && (first..last).contains(&second(one.began));
    (told.iter().filter(within).count(), usize::try_from(last.saturating_sub(first)).unwrap())
}

/// Whoever has not heard that a node is leaving calls it until its socket closes: says how many calls were answered, and
/// what became of the next.
fn call_to_the_end(mut client: Client, text: String) -> JoinHandle<(usize, String)> {
    tokio::spawn(async move {
        let mut ticks = tokio::time::interval(Duration::from_millis(10));
        for answered in 0.. {
            ticks.tick().await;
            if let Err(error) = client.should_rate_limit(request("d", &text)).await {
                return (answered, error.to_string());
            }
        }
        unreachable!("it was called for ever")
    })
}

/// A node that asks for no longer than a caller of this test may wait: it calls once more when it is answered.
async fn start(authority: &MeshAuthority, index: usize, others: &[SocketAddr]) -> Node {
    let node = authority.node(&format!("node-{index}"), others);
    Node::start(node.with("mesh.ask_timeout_ms", "100")).await
}

/// Ends a node as an operator does, and starts it anew.
async fn restart(authority: &MeshAuthority, nodes: &mut [Node], index: usize, rotation: &Rotation) {
    let late = call_to_the_end(nodes[index].client().await, format!("day=late-{index}"));
    nodes[index].signal("TERM").await;
    // By now every page says that it is not ready.
    nodes[index].log.next("leaving the mesh").await;
    rotation.set(index, None);
    assert_eq!(nodes[index].ended().await.code(), Some(0));
    let (answered, error) = within("the end of its socket", late).await.unwrap();
    // It leaves for two seconds or so and answers meanwhile, though not at once where it has to ask.
    assert!(answered >= 1, "{answered} calls were answered by a node that was leaving, then: {error}");
    let log = nodes[index].log.rest().await;
    assert!(log.contains("left the mesh"), "{log}");
    let others = nodes.iter().enumerate().filter(|(other, _)| *other != index);
    let others: Vec<_> = others.map(|(_, node)| node.mesh).collect();
    nodes[index] = start(authority, index, &others).await;
    all_are_members(nodes).await;
    rotation.set(index, Some(nodes[index].client().await));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_fails_no_call_and_fills_no_window_twice() {
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
    let (mut told, mut of_a_day) = (Vec::new(), 0);
    for caller in by_second {
        let (calls, failed) = within("the last call", caller).await.unwrap();
        assert_eq!(failed, Vec::<String>::new());
        told.extend(calls);
    }
    for caller in by_day {
        let (calls, failed) = within("the last call", caller).await.unwrap();
        assert_eq!(failed, Vec::<String>::new());
        of_a_day += calls.iter().filter(|call| call.is_admitted).count();
    }
    assert!(fullest(&told) <= LIMIT, "{} in a second", fullest(&told));
    let (used, seconds) = used(&told);
    // Calls come five times as fast as they may. A node that leaves or joins costs a window some of its limit.
    let slowest = told.iter().map(|one| one.ended.since(one.began)).max();
    assert!(
        used * 100 >= seconds * LIMIT * 80,
        "{used} of {seconds} times {LIMIT}, slowest {slowest:?} of {}",
        told.len()
    );
    assert!(of_a_day <= OF_A_DAY, "{of_a_day} in a day");
    // Of a day that began before any of them, and a key that nobody had asked for.
    let mut fresh = 0;
    for call in 0..OF_A_DAY + 30 {
        let answer =
            rotation.pick(call).should_rate_limit(request("d", "day=fresh")).await.expect("an answer");
        fresh += usize::from(overall(&answer.into_inner()) == "OK");
    }
    assert!((OF_A_DAY * 9 / 10..=OF_A_DAY).contains(&fresh), "{fresh} of {OF_A_DAY} of a key that was new");
}
