//! Listening sockets: ports in use, Unix sockets, and leftover socket files.

use hivemind_testkit::{Client, Page, Server, Setup, request, statuses, within};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tonic::transport::Endpoint;

const RULES: &str = "domain: d\ndescriptors:\n- {key: k, rate_limit: {unit: day, requests_per_unit: 9}}\n";

#[tokio::test]
async fn port_in_use_is_reported_in_one_line() {
    for key in ["grpc_port", "admin_port", "metrics_port"] {
        let taken = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = taken.local_addr().unwrap().port().to_string();
        let (status, out, error) = Setup::rules(RULES).with(&format!("server.{key}"), &port).fail().await;
        assert_eq!((status.code(), out.as_str()), (Some(1), ""), "{key}");
        assert_eq!(error.lines().count(), 1, "{error}");
        for part in [port.as_str(), key, "cannot listen", "in use"] {
            assert!(error.contains(part), "`{part}` is missing in {error}");
        }
    }
}

fn with_sockets() -> Setup {
    let setup = Setup::rules(RULES);
    let path = |name: &str| setup.path().join(name).to_str().unwrap().to_owned();
    let (grpc, admin) = (path("grpc.sock"), path("admin.sock"));
    setup.with("server.grpc_uds", &grpc).with("server.admin_uds", &admin)
}

async fn over(path: &Path) -> String {
    let path = format!("unix://{}", path.display());
    let channel = within("a connection", Endpoint::from_shared(path).unwrap().connect()).await.unwrap();
    let answer = within("an answer", Client::new(channel).should_rate_limit(request("d", "k=x"))).await;
    statuses(answer.unwrap().get_ref())
}

async fn page(server: &Server, path: &str) -> Page {
    let connection = UnixStream::connect(server.path().join("admin.sock")).await.unwrap();
    within("a page", hivemind_testkit::exchange(connection, "GET", path, "")).await
}

#[tokio::test]
async fn unix_socket_and_port_serve_the_same_counters() {
    let mut server = with_sockets().start().await;
    assert_eq!(over(&server.path().join("grpc.sock")).await, "OK 9/DAY, 8 left");
    assert_eq!(statuses(&server.ask("d", "k=x").await), "OK 9/DAY, 7 left");
    assert_eq!(page(&server, "/readyz").await.code, 200);
    server.signal("TERM").await;
    assert_eq!(server.ended().await.code(), Some(0));
    let screen = server.screen.rest().await;
    assert!(screen.contains("grpc.sock") && screen.contains("admin.sock"), "{screen}");
}

#[tokio::test]
async fn leftover_socket_file_is_replaced() {
    let setup = with_sockets();
    let path = setup.path().join("grpc.sock");
    drop(UnixListener::bind(&path).unwrap());
    assert!(std::fs::metadata(&path).unwrap().file_type().is_socket());
    let server = setup.start().await;
    assert_eq!(over(&path).await, "OK 9/DAY, 8 left");
    drop(server);
}

#[tokio::test]
async fn socket_of_a_running_process_is_not_replaced() {
    let setup = with_sockets();
    let path = setup.path().join("grpc.sock");
    let other = UnixListener::bind(&path).unwrap();
    let (status, _, error) = setup.fail().await;
    assert_eq!(status.code(), Some(1));
    assert!(error.contains("grpc.sock") && error.contains("another process"), "{error}");
    drop(other);
}

#[tokio::test]
async fn regular_file_at_the_socket_path_is_not_overwritten() {
    let setup = with_sockets();
    setup.write("grpc.sock", "precious");
    let (status, _, error) = setup.fail().await;
    assert_eq!(status.code(), Some(1));
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.contains("grpc.sock"), "{error}");
    assert_eq!(std::fs::read_to_string(setup.path().join("grpc.sock")).unwrap(), "precious");
}
