//! Access to a protected Redis: passwords, users, a Unix socket, TLS.

use crate::nodes::{node, verdicts};
use hivemind_testkit::redis::{Redis, free_port};
use hivemind_testkit::{Server, Setup};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use std::os::unix::fs::PermissionsExt;

async fn assert_shares(setup: Setup) {
    assert_serves(setup.start().await).await;
}

async fn assert_serves(mut node: Server) {
    node.log.next("shared store connected").await;
    assert_eq!(verdicts(&node, "closed=x", 4).await, ["OK", "OK", "OK", "OVER"]);
    assert!(crate::nodes::metric(&node, "script_calls_total").await >= 3);
}

#[tokio::test]
async fn password_is_read_from_file_and_never_logged() {
    let redis = Redis::start_with(&["--requirepass", "hunter2"]).await;
    let setup = node(&redis.url());
    setup.write("password", "hunter2\n");
    assert_shares(setup.with("storage.redis.password_file", "password")).await;
    // Without the password the store counts as unreachable; the log has the reason.
    let mut node = node(&redis.url()).start().await;
    let line = node.log.next("shared store unreachable").await;
    assert!(line.contains("NOAUTH") || line.to_lowercase().contains("auth"), "{line}");
    let setup = crate::nodes::node(&redis.url());
    setup.write("password", "hunter3\n");
    let mut node = setup.with("storage.redis.password_file", "password").start().await;
    let line = node.log.next("shared store unreachable").await;
    assert!(!line.contains("hunter3"), "{line}");
}

#[tokio::test]
async fn missing_password_file_prevents_start_and_is_named() {
    let setup = node("redis://192.0.2.1:6379").with("storage.redis.password_file", "/nowhere/password");
    let (status, _, line) = setup.fail().await;
    assert!(!status.success());
    assert!(line.contains("`storage.redis.password_file`: /nowhere/password cannot be read"), "{line}");
}

#[tokio::test]
async fn redis_user_with_password_is_supported() {
    let redis = Redis::start().await;
    let user = ["acl", "setuser", "node", "on", ">hunter2", "~*", "+@all"];
    assert_eq!(redis.command(&user).await.trim(), "OK");
    assert_eq!(redis.command(&["acl", "setuser", "default", "off"]).await.trim(), "OK");
    let setup = node(&redis.url()).with("storage.redis.username", "node");
    setup.write("password", "hunter2");
    assert_shares(setup.with("storage.redis.password_file", "password")).await;
}

#[tokio::test]
async fn redis_is_reached_through_a_unix_socket() {
    let redis = Redis::start_with(&["--unixsocket", "redis.sock"]).await;
    let path = redis.path().join("redis.sock");
    assert_shares(node(&format!("redis+unix://{}", path.display()))).await;
}

struct Certificates {
    ca: String,
    certificate: String,
    key: String,
}

fn certificates() -> Certificates {
    let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // With another name than the CA, because equal names would look self-signed.
    params.distinguished_name.push(DnType::CommonName, "an authority");
    let ca_key = KeyPair::generate().unwrap();
    let ca = params.self_signed(&ca_key).unwrap();
    let issuer = Issuer::new(params, ca_key);
    let key = KeyPair::generate().unwrap();
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &issuer).unwrap();
    Certificates { ca: ca.pem(), certificate: certificate.pem(), key: key.serialize_pem() }
}

#[tokio::test]
async fn redis_is_reached_over_mutual_tls() {
    let made = certificates();
    let port = free_port().to_string();
    let mut redis = Redis::new(&[
        "--tls-port",
        &port,
        "--tls-cert-file",
        "redis.pem",
        "--tls-key-file",
        "redis.key",
        "--tls-ca-cert-file",
        "ca.pem",
        "--tls-auth-clients",
        "yes",
    ]);
    for (name, text) in [("ca.pem", &made.ca), ("redis.pem", &made.certificate), ("redis.key", &made.key)] {
        std::fs::write(redis.path().join(name), text).unwrap();
    }
    redis.restart().await;
    let url = format!("rediss://127.0.0.1:{port}");
    let with_files = |setup: Setup| {
        setup.write("ca.pem", &made.ca);
        setup.write("node.pem", &made.certificate);
        setup.write("node.key", &made.key);
        setup.with("storage.redis.tls.ca", "ca.pem")
    };
    let setup = with_files(node(&url)).with("storage.redis.tls.cert", "node.pem");
    let world_readable = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(setup.path().join("node.key"), world_readable).unwrap();
    let mut node = setup.with("storage.redis.tls.key", "node.key").start().await;
    node.log.next("`storage.redis.tls.key`: every user of this machine can read node.key").await;
    assert_serves(node).await;
    // A server of an untrusted CA gets no commands.
    let setup = crate::nodes::node(&url);
    let stranger = certificates();
    setup.write("ca.pem", &stranger.ca);
    let mut node = setup.with("storage.redis.tls.ca", "ca.pem").start().await;
    node.log.next("shared store unreachable").await;
    assert_eq!(crate::nodes::metric(&node, "up").await, 0);
}
