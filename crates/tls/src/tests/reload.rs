//! Reload of the server certificates while a listener uses them.

use super::super::{TrustStores, Warning};
use super::clients::{certificate_of, connect};
use super::support::{BOTH, Ca, load, reload, serve};
use hivemind_core::{Clock, SystemClock};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

// Fails when a reload removes the certificate before the new one is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificate_replaced_under_load_fails_no_connection() {
    let ca = Arc::new(Ca::new());
    let files = ca.issue("a", &["a.example.org"]);
    let certificates = Arc::new(load(&[&files]).unwrap());
    let address = serve(&certificates, false, None).await;
    let mut old = connect(&ca, address, "a.example.org", &BOTH).await.unwrap();
    let before = certificate_of(&old);
    let (is_over, connected) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (ca, is_over, connected) = (Arc::clone(&ca), Arc::clone(&is_over), Arc::clone(&connected));
            tokio::spawn(async move {
                while !is_over.load(Ordering::SeqCst) {
                    connect(&ca, address, "a.example.org", &BOTH).await.unwrap();
                    connected.fetch_add(1, Ordering::SeqCst);
                }
            })
        })
        .collect();
    for round in 0..10 {
        ca.issue("a", &["a.example.org"]);
        assert_eq!(reload(&certificates), (1, vec![]), "{round}");
        let seen = connected.load(Ordering::SeqCst);
        let moved = async {
            while connected.load(Ordering::SeqCst) < seen + 8 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), moved).await.expect("connections go on");
    }
    is_over.store(true, Ordering::SeqCst);
    for client in clients {
        client.await.unwrap();
    }
    let new = connect(&ca, address, "a.example.org", &BOTH).await.unwrap();
    assert_ne!(certificate_of(&new), before);
    old.write_all(b"still here").await.unwrap();
    let mut answer = String::new();
    old.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("HTTP/2"), "{answer}");
}

// Fails when one broken file stops the whole reload, when a broken certificate is removed, or when an expired one
// replaces a valid one.
#[tokio::test]
async fn broken_or_expired_certificate_keeps_its_previous_version() {
    let ca = Ca::new();
    let (a, b) = (ca.issue("a", &["a.example.org"]), ca.issue("b", &["b.example.org"]));
    let certificates = Arc::new(load(&[&a, &b]).unwrap());
    let address = serve(&certificates, false, None).await;
    let shown = async |name| certificate_of(&connect(&ca, address, name, &BOTH).await.unwrap());
    let (old_a, old_b) = (shown("a.example.org").await, shown("b.example.org").await);
    assert_eq!(reload(&certificates), (0, vec![]));
    // The first is renewed, and the second is half written.
    ca.issue("a", &["a.example.org"]);
    let whole = fs::read(&b.cert).unwrap();
    fs::write(&b.cert, &whole[..whole.len() / 2]).unwrap();
    let (changed, errors) = reload(&certificates);
    assert_eq!(changed, 1);
    assert!(errors.len() == 1 && errors[0].contains("b.crt"), "{errors:?}");
    let new_a = shown("a.example.org").await;
    assert_ne!(new_a, old_a);
    assert_eq!(shown("b.example.org").await, old_b);
    // A certificate that expired long ago does not replace the active one.
    ca.issue_with("b", &["b.example.org"], |params| {
        params.not_after = rcgen::date_time_ymd(2020, 2, 29);
    });
    let (changed, errors) = reload(&certificates);
    assert_eq!(changed, 0);
    assert!(errors[0].contains("b.crt: the certificate expired on 2020-02-29"), "{errors:?}");
    assert_eq!(shown("b.example.org").await, old_b);
    ca.issue("b", &["b.example.org"]);
    assert_eq!(reload(&certificates), (1, vec![]));
    assert_ne!(shown("b.example.org").await, old_b);
    assert_eq!(shown("a.example.org").await, new_a);
    assert_eq!(certificates.paths().count(), 4);
}

// Fails when one broken or expired certificate prevents the start.
#[tokio::test]
async fn start_needs_at_least_one_usable_certificate() {
    let ca = Ca::new();
    let (broken, fine) = (ca.issue("broken", &["a.example.org"]), ca.issue("fine", &["b.example.org"]));
    let ended = ca.issue_with("ended", &["c.example.org"], |params| {
        params.not_after = rcgen::date_time_ymd(2020, 2, 29);
    });
    fs::remove_file(&broken.key).unwrap();
    assert!(load(&[&broken]).unwrap_err().to_string().contains("broken.key: cannot be read"));
    let certificates = load(&[&broken, &fine, &ended]).unwrap();
    let (changed, refused) = reload(&certificates);
    assert!(changed == 0 && refused.len() == 1 && refused[0].contains("broken.key"), "{refused:?}");
    let warnings = certificates.warnings(SystemClock.now());
    assert!(matches!(&warnings[..], [Warning::Expired { .. }]), "{warnings:?}");
    assert!(warnings[0].to_string().contains("ended.crt: the certificate expired"), "{}", warnings[0]);
    let certificates = Arc::new(certificates);
    let address = serve(&certificates, false, None).await;
    connect(&ca, address, "b.example.org", &BOTH).await.unwrap();
    // A client that requests the expired certificate gets it; no other replaces it.
    let error = connect(&ca, address, "c.example.org", &BOTH).await.unwrap_err().to_string();
    assert!(error.to_lowercase().contains("expired"), "{error}");
    // The broken one is active as soon as its files are repaired.
    ca.issue("broken", &["a.example.org"]);
    assert_eq!(reload(&certificates), (1, vec![]));
    connect(&ca, address, "a.example.org", &BOTH).await.unwrap();
}

// Fails when CA files are never reloaded.
#[tokio::test]
async fn upstream_ca_is_shared_and_reloads_with_its_file() {
    let (ours, theirs) = (Ca::new(), Ca::new());
    let certificate = theirs.issue("a", &["a.example.org"]);
    let address = serve(&Arc::new(load(&[&certificate]).unwrap()), false, None).await;
    let trust = TrustStores::default();
    let trusted = trust.of(Some(&ours.file())).unwrap();
    assert!(Arc::ptr_eq(&trusted, &trust.of(Some(&ours.file())).unwrap()));
    let is_trusted = async || {
        let io = TcpStream::connect(address).await.unwrap();
        trusted.any().connect("a.example.org".try_into().unwrap(), io).await.is_ok()
    };
    assert!(!is_trusted().await);
    assert_eq!((trust.reload().changed, trust.paths()), (0, vec![ours.file()]));
    fs::copy(theirs.file(), ours.file()).unwrap();
    assert_eq!(trust.reload().changed, 1);
    assert!(is_trusted().await);
    fs::write(ours.file(), "no certificate").unwrap();
    let renewal = trust.reload();
    assert!(renewal.changed == 0 && renewal.refused[0].to_string().contains("ca.pem"), "{renewal:?}");
    assert!(is_trusted().await, "the previous CA stays active");
    drop(trusted);
    trust.reload();
    assert!(trust.paths().is_empty(), "an unused file is not followed");
}
