//! Handshakes with clients: rustls, curl and openssl.

use super::super::{HandshakeError, Protocol, TrustStores, accept, client_config, roots_of, server_config};
use super::support::{BOTH, Ca, load, serve};
use rustls::pki_types::{CertificateDer, ServerName};
use std::net::SocketAddr;
use std::process::{Output, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::process::Command;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Connects and requests this name; the certificate must contain it and be signed by the CA.
pub(super) async fn connect(
    ca: &Ca,
    address: SocketAddr,
    name: &'static str,
    protocols: &[Protocol],
) -> std::io::Result<TlsStream<TcpStream>> {
    let connector =
        TlsConnector::from(client_config(roots_of(&ca.file()).unwrap().into(), protocols).unwrap());
    let io = TcpStream::connect(address).await?;
    connector.connect(ServerName::try_from(name).unwrap(), io).await
}

pub(super) fn certificate_of(stream: &TlsStream<TcpStream>) -> CertificateDer<'static> {
    stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
}

// Fails when every client gets the first certificate, or when a wildcard is compared as text.
#[tokio::test]
async fn client_gets_certificate_of_requested_name() {
    let ca = Ca::new();
    let first = ca.issue("first", &["first.example.org", "fallback.example.net"]);
    let second = ca.issue("second", &["second.example.org", "third.example.org"]);
    let wild = ca.issue("wild", &["*.apps.example.org"]);
    let address = serve(&Arc::new(load(&[&first, &second, &wild]).unwrap()), false, None).await;
    for name in ["first.example.org", "second.example.org", "third.example.org", "any.apps.example.org"] {
        connect(&ca, address, name, &BOTH).await.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    // A wildcard matches one label. Without a match the client gets the first certificate and rejects it.
    for name in ["a.b.apps.example.org", "apps.example.org", "unknown.example.org"] {
        let error = connect(&ca, address, name, &BOTH).await.unwrap_err().to_string();
        assert!(error.contains("first.example.org"), "{name}: {error}");
    }
}

#[tokio::test]
async fn curl_is_served_by_name_and_protocol() {
    let ca = Ca::new();
    let (first, second) = (ca.issue("first", &["a.example.org"]), ca.issue("second", &["*.b.example.org"]));
    let address = serve(&Arc::new(load(&[&first, &second]).unwrap()), false, None).await;
    for host in ["a.example.org", "x.b.example.org"] {
        for version in ["--tls-max=1.2", "--tlsv1.3", "--no-alpn"] {
            let version = if version == "--tls-max=1.2" { vec!["--tls-max", "1.2"] } else { vec![version] };
            let url = format!("https://{host}:{}/", address.port());
            let resolve = format!("{host}:{}:127.0.0.1", address.port());
            let mut curl = Command::new("curl");
            curl.args(["-sS", "--http1.1", "--max-time", "20", "--cacert"]).arg(ca.file());
            let output = output(curl.args(["--resolve", &resolve]).args(&version).arg(url)).await;
            let said = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            assert_eq!(said, ("HTTP/1.1".into(), "".into()), "{host} with {version:?}");
        }
    }
    // A client that trusts only another CA rejects the certificate.
    let stranger = Ca::new();
    let url = format!("https://a.example.org:{}/", address.port());
    let resolve = format!("a.example.org:{}:127.0.0.1", address.port());
    let mut curl = Command::new("curl");
    let refused =
        output(curl.args(["-sS", "--resolve", &resolve, "--cacert"]).arg(stranger.file()).arg(url)).await;
    assert!(!refused.status.success(), "{refused:?}");
}

#[tokio::test]
async fn best_common_protocol_is_negotiated() {
    let ca = Ca::new();
    let address = serve(&Arc::new(load(&[&ca.issue("a", &["a.example.org"])]).unwrap()), false, None).await;
    for (offered, agreed) in [
        (&[Protocol::Http1, Protocol::Http2][..], "HTTP/2"),
        (&[Protocol::Http2], "HTTP/2"),
        (&[Protocol::Http1], "HTTP/1.1"),
        (&[], "HTTP/1.1"),
    ] {
        let mut stream = connect(&ca, address, "a.example.org", offered).await.unwrap();
        stream.write_all(b"hello").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with(&format!("\r\n\r\n{agreed}")), "{offered:?}: {answer}");
    }
}

// Fails when every client needs TLS 1.3, or when TLS 1.2 passes where only 1.3 is allowed.
#[tokio::test]
async fn old_tls_versions_are_refused_and_new_ones_negotiated() {
    let ca = Ca::new();
    let certificates = Arc::new(load(&[&ca.issue("a", &["a.example.org"])]).unwrap());
    for (only_tls13, version, is_accepted) in [
        (false, "-tls1", false),
        (false, "-tls1_1", false),
        (false, "-tls1_2", true),
        (false, "-tls1_3", true),
        (true, "-tls1_2", false),
        (true, "-tls1_3", true),
    ] {
        let address = serve(&certificates, only_tls13, None).await;
        let mut openssl = Command::new("openssl");
        openssl.args([
            "s_client",
            "-brief",
            "-servername",
            "a.example.org",
            "-verify_return_error",
            "-CAfile",
        ]);
        openssl.arg(ca.file()).args(["-connect", &address.to_string()]).arg(version);
        // By default openssl does not offer the old versions.
        let output = output(openssl.args(["-cipher", "ALL:@SECLEVEL=0"])).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            said.contains("CONNECTION ESTABLISHED"),
            is_accepted,
            "{version}, only 1.3: {only_tls13}: {said}"
        );
        assert!(is_accepted || said.contains(" alert "), "{version}: {said}");
    }
}

async fn output(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    timeout(Duration::from_secs(30), output).await.expect("it ends").unwrap()
}

// Fails without a time limit.
#[tokio::test(start_paused = true)]
async fn handshake_without_progress_times_out() {
    let ca = Ca::new();
    let certificates = Arc::new(load(&[&ca.issue("a", &["a.example.org"])]).unwrap());
    let acceptor = TlsAcceptor::from(server_config(certificates, &BOTH, false, None).unwrap());
    let (mut client, io) = tokio::io::duplex(64);
    client.write_all(&[0x16, 3, 1]).await.unwrap();
    let patience = Duration::from_secs(5);
    let refused =
        timeout(patience * 2, accept(io, &acceptor, patience)).await.expect("an end").err().unwrap();
    assert!(matches!(refused, HandshakeError::Late(_)), "{refused}");
    let (mut client, io) = tokio::io::duplex(64);
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let refused = accept(io, &acceptor, patience).await.err().unwrap();
    assert!(matches!(refused, HandshakeError::Failed(_)), "{refused}");
}

// Fails when client certificates are not requested.
#[tokio::test]
async fn client_ca_admits_only_clients_that_it_signed() {
    let ca = Ca::new();
    let certificates = Arc::new(load(&[&ca.issue("a", &["a.example.org"])]).unwrap());
    let address = serve(&certificates, false, Some(&ca.file())).await;
    let url = format!("https://a.example.org:{}/", address.port());
    let resolve = format!("a.example.org:{}:127.0.0.1", address.port());
    let client = ca.issue("client", &["client"]);
    let other_ca = Ca::new();
    let stranger = other_ca.issue("client", &["client"]);
    for (files, is_admitted) in [(Some(client), true), (Some(stranger), false), (None, false)] {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--max-time", "20", "--http1.1", "--resolve", &resolve, "--cacert"]).arg(ca.file());
        if let Some(files) = &files {
            curl.arg("--cert").arg(&files.cert).arg("--key").arg(&files.key);
        }
        let output = output(curl.arg(&url)).await;
        assert_eq!(output.status.success(), is_admitted, "{files:?}: {output:?}");
    }
}

#[test]
fn upstream_without_configured_ca_uses_system_cas() {
    let trust = TrustStores::default();
    let system = trust.of(None).unwrap();
    assert_eq!(system.any().config().alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
    assert_eq!(system.http1().config().alpn_protocols, [b"http/1.1".to_vec()]);
    assert!(Arc::ptr_eq(&system, &trust.of(None).unwrap()), "read once for all upstreams");
}
