//! TLS on each port, as openssl and curl see it.

use crate::RULES;
use hivemind_testkit::authority::{Authority, Issued};
use hivemind_testkit::client::{ProgramOutput, curl, curl_call, openssl};
use hivemind_testkit::{Server, Setup};
use std::path::Path;
use tonic::Code;

const SECTIONS: [&str; 3] = ["security.grpc_tls", "security.admin.tls", "security.metrics_tls"];

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A service with TLS on all its ports, and with a CA for those who come.
fn with_tls(shows: &Issued, client_ca: Option<&Path>) -> Setup {
    SECTIONS.iter().fold(Setup::rules(RULES), |setup, section| {
        let setup = setup.with(&format!("{section}.cert"), text(&shows.cert));
        let setup = setup.with(&format!("{section}.key"), text(&shows.key));
        match client_ca {
            None => setup,
            Some(ca) => setup.with(&format!("{section}.client_ca"), text(ca)),
        }
    })
}

/// Asks each port for something, with these arguments of curl.
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

fn assert_refused(said: &[ProgramOutput; 3], what: &str) {
    for said in said {
        let is_answered = said.text.lines().any(|line| line.starts_with("HTTP/"));
        assert!(!matches!(said.exit, Some(0) | None) && !is_answered, "{what}: {said:?}");
    }
}

#[tokio::test]
async fn each_port_is_served_over_tls_to_those_whose_certificate_its_ca_has_signed() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let server = with_tls(&ours.issue("server"), Some(&ours.file())).start().await;
    let (ca, other_ca) = (ours.file(), theirs.file());
    let (client, stranger, expired) =
        (ours.issue("client"), theirs.issue("client"), ours.issue_until("expired", 2_020));
    let shown =
        |issued: &Issued| ["--cert", text(&issued.cert), "--key", text(&issued.key)].map(str::to_owned);
    let with = |ca: &Path, shown: &[String]| {
        let arguments = ["--cacert".to_owned(), text(ca).to_owned()].into_iter();
        arguments.chain(shown.iter().cloned()).collect::<Vec<_>>()
    };
    for (what, arguments, is_served) in [
        ("a client of ours", with(&ca, &shown(&client)), true),
        ("one that does not trust our CA", with(&other_ca, &shown(&client)), false),
        ("one without a certificate", with(&ca, &[]), false),
        ("one of another CA", with(&ca, &shown(&stranger)), false),
        ("one whose certificate expired", with(&ca, &shown(&expired)), false),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let said = each(&server, "https", &arguments).await;
        if is_served { assert_served(&said) } else { assert_refused(&said, what) }
    }
    assert_refused(&each(&server, "http", &[]).await, "plaintext");
}

// Seen failing on: ALPN of the admin port on the gRPC port.
#[tokio::test]
async fn tls_is_1_2_at_least_and_each_port_says_which_http_it_speaks() {
    let ours = Authority::new();
    let server = with_tls(&ours.issue("server"), None).start().await;
    let ca = ours.file();
    assert_served(&each(&server, "https", &["--cacert", text(&ca)]).await);
    for (at, is_grpc) in [(server.grpc, true), (server.admin, false), (server.metrics, false)] {
        let trusting = ["-CAfile", text(&ca), "-verify_return_error"];
        let shake = async |arguments: &[&str]| openssl(at, &[&trusting[..], arguments].concat()).await;
        for (flag, version) in [("-tls1_3", "TLSv1.3"), ("-tls1_2", "TLSv1.2")] {
            let said = shake(&[flag, "-alpn", "h2"]).await;
            assert!(said.text.contains(&format!("New, {version}")), "{said:?}");
            assert!(said.text.contains("ALPN protocol: h2"), "{said:?}");
        }
        assert!(shake(&[]).await.text.contains("New, TLSv1.3"), "the better one is preferred");
        for old in ["-tls1_1", "-tls1"] {
            let said = shake(&[old, "-cipher", "DEFAULT@SECLEVEL=0"]).await;
            assert!(said.text.contains("SSL alert number") && said.exit == Some(1), "{said:?}");
            assert!(said.text.contains("New, (NONE)"), "{said:?}");
        }
        let said = shake(&["-alpn", "http/1.1"]).await;
        assert_eq!(said.text.contains("ALPN protocol: http/1.1"), !is_grpc, "{said:?}");
        assert_eq!(said.text.contains("no application protocol"), is_grpc, "{said:?}");
    }
    for (version, word) in [("--http1.1", "HTTP/1.1 200"), ("--http2", "HTTP/2 200")] {
        let said = curl(&[version, "--cacert", text(&ca), &format!("https://{}/readyz", server.admin)]).await;
        assert!(said.text.starts_with(word), "{said:?}");
    }
}

// Seen failing on: the certificates of ports followed by nobody.
#[tokio::test]
async fn an_expired_certificate_is_told_everywhere_and_a_new_one_is_taken_up() {
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
async fn a_service_without_its_certificate_does_not_start_and_says_which_setting() {
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
async fn who_never_ends_its_handshake_holds_nobody_up() {
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
