//! TLS on each port, tested with openssl and curl.

use crate::RULES;
use hivemind_testkit::authority::{Authority, IssuedFiles};
use hivemind_testkit::client::{ProgramOutput, curl, curl_call, openssl};
use hivemind_testkit::{Server, Setup};
use std::path::Path;
use tonic::Code;

const SECTIONS: [&str; 3] = ["security.grpc_tls", "security.admin.tls", "security.metrics_tls"];

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A service with TLS on all ports, and with a CA for client certificates.
fn with_tls(certificate: &IssuedFiles, client_ca: Option<&Path>) -> Setup {
    SECTIONS.iter().fold(Setup::rules(RULES), |setup, section| {
        let setup = setup.with(&format!("{section}.cert"), text(&certificate.cert));
        let setup = setup.with(&format!("{section}.key"), text(&certificate.key));
        match client_ca {
            None => setup,
            Some(ca) => setup.with(&format!("{section}.client_ca"), text(ca)),
        }
    })
}

/// Sends a request to each port with these curl arguments.
async fn each(server: &Server, scheme: &str, arguments: &[&str]) -> [ProgramOutput; 3] {
    let page = |at: &std::net::SocketAddr, path: &str| format!("{scheme}://{at}{path}");
    let (ready, metrics) = (page(&server.admin, "/readyz"), page(&server.metrics, "/metrics"));
    [
        curl_call(server, scheme, arguments).await,
        curl(&[&[ready.as_str()], arguments].concat()).await,
        curl(&[&[metrics.as_str()], arguments].concat()).await,
    ]
}

fn assert_served([call, admin, metrics]: &[ProgramOutput; 3]) {
    assert_eq!(call.grpc_status(), Code::Ok, "{call:?}");
    assert!(admin.code() == 200 && admin.text.contains("ready\n"), "{admin:?}");
    assert!(metrics.code() == 200 && metrics.text.contains("hivemind_keys "), "{metrics:?}");
}

fn assert_refused(outputs: &[ProgramOutput; 3], what: &str) {
    for output in outputs {
        let is_answered = output.text.lines().any(|line| line.starts_with("HTTP/"));
        assert!(!matches!(output.exit, Some(0) | None) && !is_answered, "{what}: {output:?}");
    }
}

#[tokio::test]
async fn mutual_tls_ports_serve_only_clients_of_their_ca() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let server = with_tls(&ours.issue("server"), Some(&ours.file())).start().await;
    let (ca, other_ca) = (ours.file(), theirs.file());
    let (client, stranger, expired) =
        (ours.issue("client"), theirs.issue("client"), ours.issue_until("expired", 2_020));
    let with_certificate =
        |issued: &IssuedFiles| ["--cert", text(&issued.cert), "--key", text(&issued.key)].map(str::to_owned);
    let with = |ca: &Path, with_certificate: &[String]| {
        let arguments = ["--cacert".to_owned(), text(ca).to_owned()].into_iter();
        arguments.chain(with_certificate.iter().cloned()).collect::<Vec<_>>()
    };
    for (what, arguments, is_served) in [
        ("a client of ours", with(&ca, &with_certificate(&client)), true),
        ("one that does not trust our CA", with(&other_ca, &with_certificate(&client)), false),
        ("one without a certificate", with(&ca, &[]), false),
        ("one of another CA", with(&ca, &with_certificate(&stranger)), false),
        ("one whose certificate expired", with(&ca, &with_certificate(&expired)), false),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let output = each(&server, "https", &arguments).await;
        if is_served { assert_served(&output) } else { assert_refused(&output, what) }
    }
    assert_refused(&each(&server, "http", &[]).await, "plaintext");
}

// Seen failing on: ALPN of the admin port on the gRPC port.
#[tokio::test]
async fn tls_is_at_least_1_2_with_alpn_per_port() {
    let ours = Authority::new();
    let server = with_tls(&ours.issue("server"), None).start().await;
    let ca = ours.file();
    assert_served(&each(&server, "https", &["--cacert", text(&ca)]).await);
    for (at, is_grpc) in [(server.grpc, true), (server.admin, false), (server.metrics, false)] {
        let trusting = ["-CAfile", text(&ca), "-verify_return_error"];
        let shake = async |arguments: &[&str]| openssl(at, &[&trusting[..], arguments].concat()).await;
        for (flag, version) in [("-tls1_3", "TLSv1.3"), ("-tls1_2", "TLSv1.2")] {
            let output = shake(&[flag, "-alpn", "h2"]).await;
            assert!(output.text.contains(&format!("New, {version}")), "{output:?}");
            assert!(output.text.contains("ALPN protocol: h2"), "{output:?}");
        }
        assert!(shake(&[]).await.text.contains("New, TLSv1.3"), "the newer version is preferred");
        for old in ["-tls1_1", "-tls1"] {
            let output = shake(&[old, "-cipher", "DEFAULT@SECLEVEL=0"]).await;
            assert!(output.text.contains("SSL alert number") && output.exit == Some(1), "{output:?}");
            assert!(output.text.contains("New, (NONE)"), "{output:?}");
        }
        let output = shake(&["-alpn", "http/1.1"]).await;
        assert_eq!(output.text.contains("ALPN protocol: http/1.1"), !is_grpc, "{output:?}");
        assert_eq!(output.text.contains("no application protocol"), is_grpc, "{output:?}");
    }
    for (version, word) in [("--http1.1", "HTTP/1.1 200"), ("--http2", "HTTP/2 200")] {
        let output =
            curl(&[version, "--cacert", text(&ca), &format!("https://{}/readyz", server.admin)]).await;
        assert!(output.text.starts_with(word), "{output:?}");
    }
}

// Seen failing on: port certificates that are not reloaded.
#[tokio::test]
async fn expired_certificate_is_reported_until_replaced() {
    let ours = Authority::new();
    let old = ours.issue_until("server", 2_020);
    let mut server = with_tls(&old, None).start().await;
    let ca = ours.file();
    let trusting = ["--cacert", text(&ca)];
    assert_refused(&each(&server, "https", &trusting).await, "expired");
    server.log.next("the certificate expired").await;
    let blindly = ["-k"];
    let [_, ready, metrics] = each(&server, "https", &blindly).await;
    assert!(
        ready.text.contains("certificates: ") && ready.text.contains("server.pem: the certificate expired")
    );
    assert!(metrics.text.contains("hivemind_certificate_expiry_seconds 16093"), "{metrics:?}");
    ours.issue("server");
    server.log.next("new certificates are active").await;
    assert_served(&each(&server, "https", &trusting).await);
    let [_, ready, _] = each(&server, "https", &trusting).await;
    assert!(!ready.text.contains("certificates"), "{ready:?}");
}

#[tokio::test]
async fn missing_certificate_prevents_start_and_names_the_setting() {
    let ours = Authority::new();
    let issued = ours.issue("server");
    for section in SECTIONS {
        for (file, word) in
            [("cert", "has no certificate"), ("key", "has no private key"), ("client_ca", "has no")]
        {
            let (cert, key) = (text(&issued.cert), text(&issued.key));
            let setup = Setup::rules(RULES).with(&format!("{section}.cert"), cert);
            let setup = setup.with(&format!("{section}.key"), key);
            setup.write("broken", "nothing of the kind");
            let broken = text(&setup.path().join("broken")).to_owned();
            let (status, _, error) = setup.with(&format!("{section}.{file}"), &broken).fail().await;
            assert_eq!(status.code(), Some(1));
            assert!(error.contains(&format!("`{section}`")) && error.contains(word), "{error}");
        }
    }
}

// Seen failing on: handshakes in the accept loop.
#[tokio::test]
async fn stalled_handshake_does_not_delay_other_clients() {
    let ours = Authority::new();
    let server = with_tls(&ours.issue("server"), None).start().await;
    let ca = ours.file();
    let mut silent = Vec::new();
    for at in [server.grpc, server.admin, server.metrics] {
        for _ in 0..50 {
            silent.push(tokio::net::TcpStream::connect(at).await.unwrap());
        }
    }
    assert_served(&each(&server, "https", &["--cacert", text(&ca)]).await);
}
