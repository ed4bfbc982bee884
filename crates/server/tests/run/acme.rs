//! Certificates that a CA gives: asked for, shown, kept, renewed, and what happens while the CA is away.

use crate::pebble::Pebble;
use crate::process::{Folder, Running, free_port, get};
use hivemind_testkit::{DEADLINE, within};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use tokio::net::TcpListener;
use tokio::process::Command;

const NAME: &str = "shop.example";
/// Sixty days: nobody is warned of its end.
const LONG: u64 = 5_184_000;
/// Renewed after twelve seconds.
const SHORT: u64 = 18;

fn configure(folder: &Folder, port: u16, directory: &str) {
    let (at, nobody) = (folder.path().display(), free_port());
    folder.write(
        "hivemind.yaml",
        &format!(
            "server: {{grpc_port: off, admin_port: 0, metrics_port: off}}\n\
             gateway:\n  listen: 127.0.0.1:{port}\n  services: [{{id: app, upstream: 'http://127.0.0.1:{nobody}'}}]\n  \
             tls:\n    acme: {{domains: [{NAME}, www.{NAME}], contact: 'mailto:ops@{NAME}', cache: '{at}/cache', \
             directory: '{directory}', ca: '{at}/pebble.ca'}}\n"
        ),
    );
}

/// The certificate that a client is shown that asks for this name; none if it is refused. It goes by curl, which
/// trusts the CA and nobody else: the upstream is not there, so 502 is the answer of a gateway that was reached.
async fn shown(folder: &Folder, port: u16, name: &str) -> Option<String> {
    let to = format!("{name}:{port}:127.0.0.1");
    let url = format!("https://{name}:{port}/");
    let words = [
        "-s",
        "--cacert",
        "root.pem",
        "--resolve",
        &to,
        "-o",
        "/dev/null",
        "-w",
        "%{http_code} %{certs}",
        &url,
    ];
    let mut command = Command::new("curl");
    let output = within("curl", command.args(words).current_dir(folder.path()).output()).await.unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let (code, certificates) = said.split_once(' ').unwrap();
    // Curl of old tells no certificates; the file has the one that is in force.
    let kept = std::fs::read_to_string(kept(folder)).unwrap_or_default();
    (code == "502").then(|| if certificates.contains("BEGIN") { certificates.to_owned() } else { kept })
}

/// Where it is kept.
fn kept(folder: &Folder) -> PathBuf {
    let mut found = std::fs::read_dir(folder.file("cache")).unwrap();
    found.next().unwrap().unwrap().path().join("certificate.pem")
}

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let looked = async { while !is_so().await {} };
    tokio::time::timeout(DEADLINE * 2, looked).await.unwrap_or_else(|_| panic!("waited until {what}"));
}

// Seen failing on: a challenge that rustls read before it was shown, and refused.
#[tokio::test]
async fn a_certificate_is_asked_for_shown_kept_and_used_again() {
    let (folder, port) = (Folder::with(""), free_port());
    let mut pebble = Pebble::start(&folder, port, LONG).await;
    pebble.root(&folder).await;
    configure(&folder, port, &pebble.directory());
    let mut service = Running::start(&mut folder.serve()).await;
    service.log.next("no certificate for shop.example, www.shop.example yet").await;
    service.log.next("issued a certificate").await;
    let first = shown(&folder, port, NAME).await.expect("a certificate that curl trusts");
    assert!(shown(&folder, port, &format!("www.{NAME}")).await.is_some());
    assert!(shown(&folder, port, "other.example").await.is_none(), "it is for no other name");
    let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let file = kept(&folder);
    assert_eq!(mode(file.parent().unwrap().into()), 0o700);
    for name in ["certificate.pem", "account.json"] {
        assert_eq!(mode(file.with_file_name(name)), 0o600, "{name}");
    }
    service.signal("TERM").await;
    assert_eq!(service.ended().await.code(), Some(0));
    // Nobody is asked: the CA is not there.
    pebble.goes_away().await;
    let mut service = Running::start(&mut folder.serve()).await;
    assert_eq!(shown(&folder, port, NAME).await.as_deref(), Some(first.as_str()));
    let ready = get(service.at("admin"), "/readyz").await;
    assert_eq!((ready.code, ready.body.as_str()), (200, "ready\n"));
    service.signal("TERM").await;
    service.ended().await;
    assert!(!service.log.rest().await.contains("issued no certificate"));
}

#[tokio::test]
async fn it_is_renewed_in_time_and_serves_on_while_the_ca_is_away() {
    let (folder, port) = (Folder::with(""), free_port());
    let mut pebble = Pebble::start(&folder, port, SHORT).await;
    pebble.root(&folder).await;
    configure(&folder, port, &pebble.directory());
    let mut service = Running::start(&mut folder.serve()).await;
    service.log.next("issued a certificate").await;
    let first = std::fs::read_to_string(kept(&folder)).unwrap();
    service.log.next("issued a certificate").await;
    // Before the first has ended: a client sees no gap.
    assert!(shown(&folder, port, NAME).await.is_some());
    assert_ne!(std::fs::read_to_string(kept(&folder)).unwrap(), first);
    pebble.goes_away().await;
    let told = service.log.next("issued no certificate").await;
    assert!(told.contains("the previous certificate stays active"), "{told}");
    assert!(shown(&folder, port, NAME).await.is_some());
    let admin = service.at("admin");
    until("it is told", async || {
        let page = get(admin, "/readyz?verbose").await;
        page.code == 200 && page.body.contains("issued no certificate")
    })
    .await;
}

#[tokio::test]
async fn without_any_certificate_handshakes_are_refused_and_the_reason_is_told() {
    let (folder, port) = (Folder::with(""), free_port());
    // Somebody listens there who is no CA.
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let directory = format!("https://{}/dir", silent.local_addr().unwrap());
    drop(silent);
    let pebble = Pebble::start(&folder, port, LONG).await;
    pebble.root(&folder).await;
    configure(&folder, port, &directory);
    let mut service = Running::start(&mut folder.serve()).await;
    let told = service.log.next("issued no certificate").await;
    assert!(
        told.contains(&directory) && told.contains("TLS handshakes without another certificate are refused"),
        "{told}"
    );
    assert!(shown(&folder, port, NAME).await.is_none());
    let ready = get(service.at("admin"), "/readyz").await;
    assert!(ready.body.contains("issued no certificate"), "{}", ready.body);
}

// A CA counts what it refuses, so it is asked again much later than one that is away.
#[tokio::test]
async fn a_ca_that_refuses_is_told_with_its_reason_and_asked_much_later() {
    for (forbidden, reason) in [(&[][..], "tls-alpn-01 challenge"), (&[NAME][..], "rejectedIdentifier")] {
        let (folder, port) = (Folder::with(""), free_port());
        // It looks for the challenge where nobody listens.
        let pebble = Pebble::start_without(&folder, free_port(), LONG, forbidden).await;
        pebble.root(&folder).await;
        configure(&folder, port, &pebble.directory());
        let mut service = Running::start(&mut folder.serve()).await;
        let told = service.log.next("issued no certificate").await;
        for part in ["the CA refused: ", reason, "retrying in 900s"] {
            assert!(told.contains(part), "no {part} in {told}");
        }
        assert!(shown(&folder, port, NAME).await.is_none());
        let ready = get(service.at("admin"), "/readyz").await;
        assert!(ready.body.contains("the CA refused: "), "{}", ready.body);
    }
}

#[tokio::test]
async fn where_the_ca_has_forgotten_the_account_another_is_made() {
    let (folder, port) = (Folder::with(""), free_port());
    let mut pebble = Pebble::start(&folder, port, LONG).await;
    pebble.root(&folder).await;
    configure(&folder, port, &pebble.directory());
    let mut service = Running::start(&mut folder.serve()).await;
    service.log.next("issued a certificate").await;
    service.signal("TERM").await;
    assert_eq!(service.ended().await.code(), Some(0));
    let account = std::fs::read_to_string(kept(&folder).with_file_name("account.json")).unwrap();
    std::fs::remove_file(kept(&folder)).unwrap();
    pebble.goes_away().await;
    pebble.comes_back(&folder).await;
    let mut service = Running::start(&mut folder.serve()).await;
    service.log.next("the CA no longer knows the account; creating a new one").await;
    service.log.next("issued a certificate").await;
    assert!(shown(&folder, port, NAME).await.is_some());
    assert_ne!(std::fs::read_to_string(kept(&folder).with_file_name("account.json")).unwrap(), account);
}
