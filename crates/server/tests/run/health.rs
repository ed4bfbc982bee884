//! `hivemind health`: one line, exit 0 or 1, whatever the service is asked over.

use crate::process::{Folder, Running, hivemind};
use tokio::net::TcpListener;
use tokio::process::Command;

const OPEN: &str = "server: {grpc_port: 0, admin_port: 0, metrics_port: 0}\n";

/// A folder with a CA of its own, and a certificate for a name that nobody calls it by.
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
async fn a_service_that_serves_is_healthy_and_one_that_is_not_there_is_not() {
    let folder = Folder::with(OPEN);
    let mut service = Running::start(&mut folder.serve()).await;
    let url = format!("http://{}", service.at("admin"));
    for (words, path) in
        [(&["health", "--url", &url][..], "healthz"), (&["health", "--ready", "--url", &url], "readyz")]
    {
        let (code, said) = hivemind(&folder, words).await;
        assert_eq!((code, said.lines().count()), (Some(0), 1), "{said}");
        assert!(said.starts_with(&format!("{url}/{path}: ")), "{said}");
    }
    service.signal("TERM").await;
    service.ended().await;
    let (code, said) = hivemind(&folder, &["health", "--url", &url]).await;
    assert_eq!((code, said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("does not answer") && said.contains("refused"), "{said}");
}

#[tokio::test]
async fn who_is_not_ready_serves_all_the_same() {
    let folder = Folder::with(
        "server: {grpc_port: 0, admin_port: 0, metrics_port: 0}\n\
         rate_limiting: {config_path: '{}/rules', force_start_without_initial_config: true}\n",
    );
    let service = Running::start(&mut folder.serve()).await;
    let url = format!("http://{}", service.at("admin"));
    assert_eq!(hivemind(&folder, &["health", "--url", &url]).await.0, Some(0));
    let (code, said) = hivemind(&folder, &["health", "--ready", "--url", &url]).await;
    assert_eq!((code, said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("503") && said.contains("no rules loaded"), "{said}");
}

#[tokio::test]
async fn a_configuration_says_where_to_ask() {
    // A Unix socket, where there is no port; a port that is known beforehand; TLS with a certificate for another name.
    let port = crate::process::free_port();
    let tls = format!(
        "server: {{grpc_port: 0, admin_port: {port}, metrics_port: 0, admin_host: 0.0.0.0}}\n\
         security: {{admin: {{tls: {{cert: '{{}}/node.crt', key: '{{}}/node.key'}}}}}}\n"
    );
    for (configuration, asked) in [
        ("server: {grpc_port: 0, admin_port: off, metrics_port: 0, admin_uds: '{}/admin.sock'}\n", "unix:/"),
        (&tls, "https://127.0.0.1:"),
    ] {
        let folder = with_certificate(configuration).await;
        let _service = Running::start(&mut folder.serve()).await;
        let (code, said) = hivemind(&folder, &["health", "--config", "hivemind.yaml"]).await;
        assert_eq!(code, Some(0), "{said}");
        assert!(said.starts_with(asked), "{said}");
        // Another service in the place of this one is not taken for it.
        if asked.starts_with("https") {
            let other = with_certificate(configuration).await;
            let (code, said) = hivemind(&other, &["health", "--config", "hivemind.yaml"]).await;
            assert_eq!(code, Some(1), "{said}");
            let url = format!("https://127.0.0.1:{port}");
            let (code, said) = hivemind(&folder, &["health", "--url", &url, "--ca", "node.crt"]).await;
            assert_eq!(code, Some(1), "a certificate for another name was taken: {said}");
        }
    }
}

#[tokio::test]
async fn what_cannot_be_asked_is_told_with_its_remedy() {
    for (configuration, told) in [
        (OPEN, "--url"),
        ("server: {admin_port: off}\n", "server.admin_uds"),
        ("security: {admin: {tls: {cert: a, key: b, client_ca: c}}}\n", "client_ca"),
    ] {
        let folder = Folder::with(configuration);
        let (code, said) = hivemind(&folder, &["health", "--config", "hivemind.yaml"]).await;
        assert_eq!((code, said.lines().count()), (Some(1), 1), "{said}");
        assert!(said.contains(told), "{said}");
    }
}

#[tokio::test]
async fn who_does_not_answer_is_not_waited_for() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let folder = Folder::with(OPEN);
    let (code, said) = hivemind(&folder, &["health", "--url", &url, "--timeout", "300ms"]).await;
    assert_eq!(code, Some(1));
    assert!(said.contains("did not answer within 300ms"), "{said}");
}
