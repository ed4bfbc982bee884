//! Sockets that somebody else has opened, as a `.socket` unit of systemd does.

use crate::process::{Folder, Running, free_port, get, refused};
use hivemind_testkit::{Client, request, statuses, within};
use std::net::TcpListener;
use std::process::Stdio;
use tokio::net::UnixStream;
use tokio::process::Command;
use tonic::transport::Endpoint;

const CONFIGURATION: &str = "server: {grpc_port: 0, admin_port: 0, metrics_port: 0, metrics_host: 127.0.0.1}\n\
                             rate_limiting: {config_path: '{}/rules.yaml'}\n";
const RULES: &str = "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 9}}]\n";

fn folder() -> Folder {
    let folder = Folder::with(CONFIGURATION);
    folder.write("rules.yaml", RULES);
    folder
}

/// A command that is started with one socket, by this name: what `sh` is given as standard input becomes descriptor 3.
fn handed(folder: &Folder, socket: TcpListener, name: &str) -> Command {
    let script =
        format!("exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES={name} exec \"$@\"");
    let mut command = folder.started_by(&["/bin/sh", "-c", &script, "sh"]);
    command.stdin(Stdio::from(std::os::fd::OwnedFd::from(socket)));
    command
}

#[tokio::test]
async fn it_listens_where_it_is_handed_a_socket() {
    let folder = folder();
    let socket = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let at = socket.local_addr().unwrap();
    // Who connects before it runs is served when it does.
    let early = tokio::net::TcpStream::connect(at).await.unwrap();
    let service = Running::start(&mut handed(&folder, socket, "admin")).await;
    assert_eq!(service.at("admin"), at);
    let page = within("a page", hivemind_testkit::exchange(early, "GET", "/readyz", "")).await;
    assert_eq!(page.code, 200);
}

// Seen failing on: a successor that listened where its configuration said, while systemd's port had nobody.
#[tokio::test]
async fn whoever_takes_over_keeps_the_sockets_of_systemd_wherever_they_are() {
    let folder = Folder::with(&CONFIGURATION.replace(
        "admin_port: 0,",
        "admin_port: 0, admin_host: 127.0.0.2, handover_socket: '{}/handover.sock',",
    ));
    folder.write("rules.yaml", RULES);
    let socket = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let at = socket.local_addr().unwrap();
    let mut old = Running::start(&mut handed(&folder, socket, "admin")).await;
    assert_eq!(old.at("admin"), at);
    for _ in 0..2 {
        let new = Running::start(folder.serve().arg("--take-over")).await;
        assert_eq!(new.at("admin"), at);
        assert_eq!(old.ended().await.code(), Some(0));
        assert_eq!(get(at, "/readyz").await.code, 200);
        old = new;
    }
}

#[tokio::test]
async fn a_socket_whose_name_says_nothing_ends_the_start_with_the_names_that_do() {
    let folder = folder();
    for (name, told) in [
        ("hivemind.socket", "FileDescriptorName"),
        ("grpc_uds", "a Unix socket"),
        ("gateway", "no setting uses it"),
    ] {
        let socket = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let (code, said) = refused(&mut handed(&folder, socket, name)).await;
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains(told) || said.contains("use one of: grpc, grpc_uds"), "{said}");
    }
}

// By systemd's own program, which opens them, starts the service with the first who comes, and passes them on.
#[tokio::test]
async fn systemd_opens_ports_and_unix_sockets_for_it() {
    let folder = folder();
    let (grpc, admin, uds) = (free_port(), free_port(), folder.file("admin.sock"));
    let address = |port: u16| format!("127.0.0.1:{port}");
    let mut command = folder.started_by(&[
        "systemd-socket-activate",
        "-l",
        &address(grpc),
        "-l",
        &address(admin),
        "-l",
        uds.to_str().unwrap(),
        "--fdname=grpc:admin:admin_uds",
    ]);
    command.env("PATH", std::env::var_os("PATH").unwrap());
    let mut child = command.spawn().expect("systemd-socket-activate; `./test` installs it");
    let mut log = hivemind_testkit::Log::of(child.stderr.take().unwrap());
    log.next("admin.sock").await;
    let endpoint = Endpoint::from_shared(format!("http://{}", address(grpc))).unwrap();
    let channel = within("a connection", endpoint.connect()).await.unwrap();
    let answer = within("an answer", Client::new(channel).should_rate_limit(request("d", "k=x"))).await;
    assert_eq!(statuses(answer.unwrap().get_ref()), "OK 9/DAY, 8 left");
    assert_eq!(get(address(admin).parse().unwrap(), "/readyz").await.code, 200);
    let connection = UnixStream::connect(&uds).await.unwrap();
    assert_eq!(
        within("a page", hivemind_testkit::exchange(connection, "GET", "/healthz", "")).await.code,
        200
    );
}
