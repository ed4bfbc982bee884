//! Certificates that are replaced while they are used.

use super::super::Changed;
use super::clients::{certificate_of, connect};
use super::support::{BOTH, Ca, load, reload, serve};
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

// Seen failing on: a reload that takes the certificate away before the new one is read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_is_replaced_under_load_and_no_connection_fails() {
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
        assert_eq!(reload(&certificates).unwrap(), Changed::Yes, "{round}");
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

// Seen failing on: a reload that stores what it could read.
#[tokio::test]
async fn a_broken_file_changes_nothing_until_it_is_mended() {
    let ca = Ca::new();
    let (a, b) = (ca.issue("a", &["a.example.org"]), ca.issue("b", &["b.example.org"]));
    let certificates = Arc::new(load(&[&a, &b]).unwrap());
    let address = serve(&certificates, false, None).await;
    let before = certificate_of(&connect(&ca, address, "a.example.org", &BOTH).await.unwrap());
    assert_eq!(reload(&certificates).unwrap(), Changed::No);
    // The first is renewed, and the second is half written: neither comes into force.
    ca.issue("a", &["a.example.org"]);
    let whole = fs::read(&b.cert).unwrap();
    fs::write(&b.cert, &whole[..whole.len() / 2]).unwrap();
    let error = reload(&certificates).unwrap_err().to_string();
    assert!(error.contains("b.crt"), "{error}");
    let during = connect(&ca, address, "a.example.org", &BOTH).await.unwrap();
    assert_eq!(certificate_of(&during), before);
    fs::write(&b.cert, &whole).unwrap();
    assert_eq!(reload(&certificates).unwrap(), Changed::Yes);
    let after = connect(&ca, address, "a.example.org", &BOTH).await.unwrap();
    assert_ne!(certificate_of(&after), before);
    assert_eq!(certificates.paths().count(), 4);
}
