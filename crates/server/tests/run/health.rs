//! `hivemind health`: one line, exit status 0 or 1, over any kind of connection.

use crate::process::{Folder, Running, hivemind};
use tokio::net::TcpListener;
use tokio::process::Command;

const OPEN: &str = "server: {grpc_port: 0, admin_port: 0, metrics_port: 0}\n";

/// A folder with a CA and a certificate for another name than the one that is called.
async fn with_certificate(configuration: &str) -> Folder {
    let folder = Folder::with(configuration);
    let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout node.key -out node.crt -days 2 \
                 -subj /CN=shop.example -addext subjectAltName=DNS:shop.example";
    let mut command = Command::new("openssl");
    let made = command.args(words.split_whitespace()).current_dir(folder.path()).output().await.unwrap();
    assert!(made.status.success(), "{made:?}");
    folder
}

#[tokio::test]
async fn running_service_is_healthy_and_missing_one_is_not() {
    let folder = Folder::with(OPEN);
    let mut service = Running::start(&mut folder.serve()).await;
    let url = format!("http://{}", service.at("admin"));
    for (words, path) in
        [(&["health", "--url", &url][..], "healthz"), (&["health", "--ready", "--url", &url], "readyz")]
    {
        let (code, output) = hivemind(&folder, words).await;
        assert_eq!((code, output.lines().count()), (Some(0), 1), "{output}");
        assert!(output.starts_with(&format!("{url}/{path}: ")), "{output}");
    }
    service.signal("TERM").await;
    service.ended().await;
    let (code, output) = hivemind(&folder, &["health", "--url", &url]).await;
    assert_eq!((code, output.lines().count()), (Some(1), 1), "{output}");
    assert!(output.contains("did not answer") && output.contains("refused"), "{output}");
}

#[tokio::test]
async fn unready_service_is_healthy_but_not_ready() {
    let folder = Folder::with(
        "server: {grpc_port: 0, admin_port: 0, metrics_port: 0}\n\
         rate_limiting: {config_path: '{}/rules', force_start_without_initial_config: true}\n",
    );
    let service = Running::start(&mut folder.serve()).await;
    let url = format!("http://{}", service.at("admin"));
    assert_eq!(hivemind(&folder, &["health", "--url", &url]).await.0, Some(0));
    let (code, output) = hivemind(&folder, &["health", "--ready", "--url", &url]).await;
    assert_eq!((code, output.lines().count()), (Some(1), 1), "{output}");
    assert!(output.contains("503") && output.contains("no rules loaded"), "{output}");
}

#[tokio::test]
async fn health_address_comes_from_the_configuration() {
    // A Unix socket without a port; a configured port; TLS with a certificate for another name.
    let port = crate::process::free_port();
    let tls = format!(
        "server: {{grpc_port: 0, admin_port: {port}, metrics_port: 0, admin_host: 0.0.0.0}}\n\
         security: {{admin: {{tls: {{cert: '{{}}/node.crt', key: '{{}}/node.key'}}}}}}\n"
    );
    for (configuration, expected_url) in [
        ("server: {grpc_port: 0, admin_port: off, metrics_port: 0, admin_uds: '{}/admin.sock'}\n", "unix:/"),
        (&tls, "https://127.0.0.1:"),
    ] {
        let folder = with_certificate(configuration).await;
        let _service = Running::start(&mut folder.serve()).await;
        let (code, output) = hivemind(&folder, &["health", "--config", "hivemind.yaml"]).await;
        assert_eq!(code, Some(0), "{output}");
        assert!(output.starts_with(expected_url), "{output}");
        // Another service at the same address is not accepted in its place.
        if expected_url.starts_with("https") {
            let other = with_certificate(configuration).await;
            let (code, output) = hivemind(&other, &["health", "--config", "hivemind.yaml"]).await;
            assert_eq!(code, Some(1), "{output}");
            let url = format!("https://127.0.0.1:{port}");
            let (code, output) = hivemind(&folder, &["health", "--url", &url, "--ca", "node.crt"]).await;
            assert_eq!(code, Some(1), "a certificate for another name was taken: {output}");
        }
    }
}

#[tokio::test]
async fn configuration_without_address_is_reported_with_a_remedy() {
    for (configuration, remedy) in [
        (OPEN, "--url"),
        ("server: {admin_port: off}\n", "server.admin_uds"),
        ("security: {admin: {tls: {cert: a, key: b, client_ca: c}}}\n", "client_ca"),
    ] {
        let folder = Folder::with(configuration);
        let (code, output) = hivemind(&folder, &["health", "--config", "hivemind.yaml"]).await;
        assert_eq!((code, output.lines().count()), (Some(1), 1), "{output}");
        assert!(output.contains(remedy), "{output}");
    }
}

#[tokio::test]
async fn unresponsive_service_times_out() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let folder = Folder::with(OPEN);
    let (code, output) = hivemind(&folder, &["health", "--url", &url, "--timeout", "300ms"]).await;
    assert_eq!(code, Some(1));
    assert!(output.contains("did not answer within 300ms"), "{output}");
}
