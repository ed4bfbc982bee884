//! Inherited sockets, as a systemd `.socket` unit opens them.

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

/// A command that inherits one socket with this name: `sh` moves its standard input to descriptor 3.
fn with_socket(folder: &Folder, socket: TcpListener, name: &str) -> Command {
    let script =
        format!("exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES={name} exec \"$@\"");
    let mut command = folder.started_by(&["/bin/sh", "-c", &script, "sh"]);
    command.stdin(Stdio::from(std::os::fd::OwnedFd::from(socket)));
    command
}

#[tokio::test]
async fn inherited_socket_replaces_the_configured_address() {
    let folder = folder();
    let socket = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let at = socket.local_addr().unwrap();
    // A client that connects before the process runs is served once it does.
    let early = tokio::net::TcpStream::connect(at).await.unwrap();
    let service = Running::start(&mut with_socket(&folder, socket, "admin")).await;
    assert_eq!(service.at("admin"), at);
    let page = within("a page", hivemind_testkit::exchange(early, "GET", "/readyz", "")).await;
    assert_eq!(page.code, 200);
}

// Seen failing on: a successor that listened at the configured address, while systemd's port had no listener.
#[tokio::test]
async fn upgraded_process_keeps_inherited_sockets() {
    let folder = Folder::with(&CONFIGURATION.replace(
        "admin_port: 0,",
        "admin_port: 0, admin_host: 127.0.0.2, handover_socket: '{}/handover.sock',",
    ));
    folder.write("rules.yaml", RULES);
    let socket = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let at = socket.local_addr().unwrap();
    let mut old = Running::start(&mut with_socket(&folder, socket, "admin")).await;
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
async fn unknown_socket_name_is_rejected_with_the_known_names() {
    let folder = folder();
    for (name, expected) in [
        ("hivemind.socket", "FileDescriptorName"),
        ("grpc_uds", "a Unix socket"),
        ("gateway", "no setting uses it"),
    ] {
        let socket = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let (code, output) = refused(&mut with_socket(&folder, socket, name)).await;
        assert_eq!(code, Some(1), "{output}");
        assert!(output.contains(expected) || output.contains("use one of: grpc, grpc_uds"), "{output}");
    }
}

// With systemd's own program, which opens the sockets, starts the service at the first connection, and passes
// them on.
#[tokio::test]
async fn systemd_socket_activation_passes_ports_and_unix_sockets() {
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
