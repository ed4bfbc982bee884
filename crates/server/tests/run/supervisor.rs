//! What whoever started the process is told: the words of `sd_notify`, over a real socket.

use crate::process::{Folder, Running};
use hivemind_testkit::within;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use tokio::net::UnixDatagram;

const CONFIGURATION: &str = "server: {grpc_port: 0, admin_port: 0, metrics_port: 0}\n\
                             rate_limiting: {config_path: '{}/rules.yaml'}\n";
const RULES: &str = "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 9}}]\n";

async fn words(socket: &UnixDatagram) -> Vec<String> {
    let mut bytes = [0; 4_096];
    let length = within("a word", socket.recv(&mut bytes)).await.unwrap();
    String::from_utf8_lossy(&bytes[..length]).lines().map(str::to_owned).collect()
}

/// The next message that has this word.
async fn told(socket: &UnixDatagram, word: &str) -> Vec<String> {
    loop {
        let words = words(socket).await;
        if words.iter().any(|told| told == word) {
            return words;
        }
    }
}

#[tokio::test]
async fn a_supervisor_hears_of_the_start_of_each_reload_and_of_the_end() {
    let folder = Folder::with(CONFIGURATION);
    folder.write("rules.yaml", RULES);
    let path = folder.file("notify.sock");
    let socket = UnixDatagram::bind(&path).unwrap();
    let mut service = Running::start(folder.serve().env("NOTIFY_SOCKET", &path)).await;
    assert_eq!(words(&socket).await, ["READY=1"]);
    assert_eq!(words(&socket).await, ["STATUS=ready"]);

    let before = monotonic_micros();
    // So many mistakes that all of them together would be more than systemd hears.
    let wrong = "  - {key: k, rate_limit: {unit: fortnight, requests_per_unit: 1}}\n".repeat(60);
    folder.write("rules.yaml", &format!("domain: d\ndescriptors:\n{wrong}"));
    service.signal("HUP").await;
    let reloading = words(&socket).await;
    assert_eq!(reloading[0], "RELOADING=1");
    let at: u64 = reloading[1].strip_prefix("MONOTONIC_USEC=").unwrap().parse().unwrap();
    assert!((before..=monotonic_micros()).contains(&at), "{at}");
    // It is told as soon as the files are read, and with what is wrong with them.
    // Seen failing on: both in one message, which was longer than that.
    assert_eq!(words(&socket).await, ["READY=1"]);
    let status = words(&socket).await;
    assert!(status[0].starts_with("STATUS=ready; the rules on disk are refused"), "{status:?}");
    assert!(status[0].len() < 2_000, "{status:?}");

    service.signal("TERM").await;
    told(&socket, "STOPPING=1").await;
    assert_eq!(service.ended().await.code(), Some(0));
}

/// As systemd reads it: the time since the machine was started, without its sleep.
fn monotonic_micros() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap() * 1_000_000 + u64::try_from(now.tv_nsec).unwrap() / 1_000
}

#[tokio::test]
async fn a_socket_without_a_file_is_told_as_well_and_a_watchdog_hears_that_it_lives() {
    let name = format!("hivemind-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let socket = std::os::unix::net::UnixDatagram::bind_addr(&address).unwrap();
    socket.set_nonblocking(true).unwrap();
    let socket = UnixDatagram::from_std(socket).unwrap();
    let folder = Folder::with(CONFIGURATION);
    folder.write("rules.yaml", RULES);
    let mut command = folder.serve();
    let _service =
        Running::start(command.env("NOTIFY_SOCKET", format!("@{name}")).env("WATCHDOG_USEC", "100000")).await;
    told(&socket, "READY=1").await;
    for _ in 0..3 {
        told(&socket, "WATCHDOG=1").await;
    }
}

// Seen failing on: a status that was told with each load, whether it had changed or not.
#[tokio::test]
async fn a_watchdog_for_another_process_is_not_fed_and_a_socket_that_is_not_there_stops_nobody() {
    let folder = Folder::with(CONFIGURATION);
    folder.write("rules.yaml", RULES);
    let path = folder.file("notify.sock");
    let socket = UnixDatagram::bind(&path).unwrap();
    let mut command = folder.serve();
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "1000").env("WATCHDOG_PID", "1");
    let mut service = Running::start(&mut command).await;
    told(&socket, "READY=1").await;
    service.signal("HUP").await;
    assert_eq!(words(&socket).await, ["STATUS=ready"]);
    assert_eq!(words(&socket).await[0], "RELOADING=1");
    assert_eq!(words(&socket).await[0], "READY=1");
    drop(socket);
    std::fs::remove_file(&path).unwrap();
    service.signal("TERM").await;
    assert_eq!(service.ended().await.code(), Some(0));
}
