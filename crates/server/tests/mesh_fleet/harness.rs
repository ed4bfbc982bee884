//! The instruments of these tests: counts, cuts, losses and delays are as configured.

use crate::delay::DelayedPath;
use crate::fleet::{self, Fleet, Plan};
use crate::load::{Distribution, Load};
use crate::network::{Drop, Network};
use crate::tally::{Answer, Outcome, Tally};
use crate::window_time::{begin, now};
use hivemind_testkit::within;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::UdpSocket;

const ONE_RULE: &str = "- {key: k, rate_limit: {unit: second, requests_per_unit: 1000}}\n";

// Seen failing on: a driver that begins a window before all responses of the previous one have arrived.
#[tokio::test]
async fn lone_node_admits_exactly_its_limit_in_each_window() {
    let mut fleet: Fleet = Plan::new(1, ONE_RULE).prepare().await.unwrap();
    fleet::keep_in_memory(fleet.nodes[0].path());
    fleet.start(0).await;
    let tally = Load::over(&fleet, Distribution::Uniform, 3_000, "k=v", 4).await;
    println!("{}", tally.summary());
    for (number, window) in tally.windows() {
        let due = window.offered.min(1_000);
        assert!(window.admitted <= 1_000, "window {number}: {window:?}");
        assert!(window.admitted + window.late >= due, "window {number}: {window:?}");
    }
    assert!(tally.windows().len() >= 4);
    assert_eq!(tally.failed(), 0);
}

#[test]
fn answer_after_the_edge_is_certain_for_neither_window() {
    let second = Duration::from_secs(1);
    let answer = |sent: u64, received: u64, outcome| {
        let at = |millis| begin(7, second).saturating_add(Duration::from_millis(millis));
        Answer { sent: at(sent), received: at(received), outcome }
    };
    let answers = vec![
        answer(30, 40, Outcome::Admitted),
        answer(940, 999, Outcome::Admitted),
        answer(940, 1_000, Outcome::Admitted),
        answer(940, 1_000, Outcome::Refused),
        answer(1_030, 1_031, Outcome::Admitted),
    ];
    let tally = Tally { answers };
    let windows: Vec<_> =
        tally.windows().into_iter().map(|(n, w)| (n, w.offered, w.admitted, w.late)).collect();
    assert_eq!(windows, [(7, 4, 2, 1), (8, 1, 1, 0)]);
}

#[test]
fn skewed_distribution_gives_nodes_one_half_and_one_third() {
    let round = Distribution::Skewed.round(3);
    let of = |node| round.iter().filter(|&&dealt| dealt == node).count();
    assert!((160..=168).contains(&of(0)) && (78..=86).contains(&of(1)) && (51..=58).contains(&of(2)));
}

#[tokio::test]
async fn delayed_path_takes_its_delay_in_each_direction() {
    let echo = UdpSocket::bind(("127.0.0.1", 0)).await.unwrap();
    let target = echo.local_addr().unwrap();
    let front: SocketAddr = (std::net::Ipv4Addr::new(127, 9, 9, 9), target.port()).into();
    let _way = DelayedPath::open(front, target, Duration::from_millis(40)).await;
    let client = UdpSocket::bind(("127.0.0.1", 0)).await.unwrap();
    let (sent, mut bytes) = (now(), [0; 64]);
    client.send_to(b"there", front).await.unwrap();
    let (length, from) = within("a datagram", echo.recv_from(&mut bytes)).await.unwrap();
    let there = now().since(sent);
    echo.send_to(&bytes[..length], from).await.unwrap();
    within("it is back", client.recv_from(&mut bytes)).await.unwrap();
    let back = now().since(sent);
    assert!(there >= Duration::from_millis(39) && back >= Duration::from_millis(79), "{there:?} {back:?}");
}

#[tokio::test]
async fn network_drops_all_packets_over_a_cut_and_its_loss_rate() {
    let Some(network) = Network::start(2).await else { return };
    let passed = async |count: u32| {
        // A server in one namespace and a client in the other: counts the datagrams that arrived.
        let code = "import socket as s\nr = s.socket(s.AF_INET, s.SOCK_DGRAM)\nr.bind(('192.0.2.2', 0))\n\
             print(r.getsockname()[1], flush=True)\ninput()\nr.setblocking(False)\nn = 0\n\
             try:\n  while True: r.recv(9); n += 1\nexcept BlockingIOError: print(n)";
        let mut receiver = network.member(1).command("python3");
        receiver.args(["-c", code]).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut receiver = receiver.spawn().unwrap();
        let mut lines = hivemind_testkit::Log::of(receiver.stdout.take().unwrap());
        let port = lines.next("").await;
        let code = format!(
            "import socket as s\nc = s.socket(s.AF_INET, s.SOCK_DGRAM)\n\
             for _ in range({count}): c.sendto(b'x', ('192.0.2.2', {port}))"
        );
        network.member(0).output_of("python3", &["-c", &code]).await;
        receiver.stdin.take().unwrap().write_all(b"\n").await.unwrap();
        lines.next("").await.parse::<u32>().unwrap()
    };
    assert_eq!(passed(100).await, 100);
    network.cut(&[0], &[1]).await;
    assert_eq!(passed(100).await, 0);
    network.set_drops(&[Drop::Percent(20)]).await;
    let through = passed(100).await;
    assert!((60..=95).contains(&through), "{through} of 100");
    network.heal().await;
    assert_eq!(passed(100).await, 100);
}
