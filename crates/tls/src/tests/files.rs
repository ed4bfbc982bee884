//! Unusable certificate files, and warnings about usable ones.

use super::super::validity::ValidityPeriod;
use super::super::{CertificateFiles, TrustStores, Warning};
use super::support::{Ca, load};
use hivemind_core::{Clock, SystemClock, Timestamp};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3_600);

/// The error of files that `break_it` changed.
fn refused(break_it: impl FnOnce(&Ca, &CertificateFiles)) -> String {
    let ca = Ca::new();
    let files = ca.issue("server", &["a.example.org"]);
    break_it(&ca, &files);
    let text = load(&[&files]).expect_err("refused").to_string();
    text.replace(ca.folder.path().to_str().unwrap(), "")
}

fn put(file: &std::path::Path, bytes: &[u8]) {
    fs::write(file, bytes).unwrap();
}

// Fails when the key is not compared, or when a file is read without a limit.
#[test]
fn unusable_file_is_reported_with_cause_and_fix() {
    let openssl =
        |args: &[&str]| assert!(Command::new("openssl").args(args).output().unwrap().status.success());
    for (cause, remedy, break_it) in [
        (
            "/server.crt: cannot be read",
            "can read it",
            (|_, files| fs::remove_file(&files.cert).unwrap()) as fn(&Ca, &CertificateFiles),
        ),
        ("/server.key: cannot be read", "can read it", |_, files| fs::remove_file(&files.key).unwrap()),
        ("/server.crt: has no certificate", "as PEM", |_, files| put(&files.cert, b"")),
        ("/server.crt: has no certificate", "first", |_, files| {
            fs::copy(&files.key, &files.cert).unwrap();
        }),
        ("/server.crt: is not PEM", "openssl x509", |_, files| {
            put(&files.cert, b"-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n");
        }),
        ("/server.crt: is not PEM", "openssl x509", |_, files| {
            put(&files.cert, &CertificateDer::from_pem_file(&files.cert).unwrap());
        }),
        ("/server.crt: the first certificate cannot be used", "have a new one issued", |_, files| {
            put(&files.cert, b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n");
        }),
        ("/server.crt: has more than", "only the PEM", |_, files| put(&files.cert, &vec![b' '; 2 << 20])),
        ("/server.crt: has more than 500", "one server", |_, files| {
            put(&files.cert, fs::read_to_string(&files.cert).unwrap().repeat(501).as_bytes());
        }),
        ("/server.key: has no private key", "without a password", |_, files| {
            fs::copy(&files.cert, &files.key).unwrap();
        }),
        ("/server.key: unsupported type of private key", "ECDSA", |_, files| {
            put(&files.key, b"-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n");
        }),
        (
            "/server.key: the key does not match the certificate in /server.crt",
            "issued together",
            |ca, files| {
                fs::copy(ca.issue("other", &["b.example.org"]).key, &files.key).unwrap();
            },
        ),
    ] {
        let text = refused(break_it);
        assert!(text.starts_with(cause) && text.contains(remedy), "{cause}: {text}");
    }
    let locked = refused(|ca, files| {
        let to = ca.path("locked.pem");
        let (key, out) = (files.key.to_str().unwrap(), to.to_str().unwrap());
        openssl(&["pkcs8", "-topk8", "-in", key, "-out", out, "-passout", "pass:secret"]);
        fs::rename(to, &files.key).unwrap();
    });
    assert!(locked.contains("or an encrypted one"), "{locked}");
    assert!(load(&[]).unwrap_err().to_string().contains("at least one"));
}

#[test]
fn ca_file_without_certificate_is_reported() {
    let ca = Ca::new();
    fs::write(ca.file(), "").unwrap();
    let error = TrustStores::default().of(Some(&ca.file())).unwrap_err().to_string();
    assert!(error.contains("ca.pem: has no certificate"), "{error}");
}

#[test]
fn each_key_type_of_openssl_is_read() {
    let ca = Ca::new();
    for kind in [
        &["-newkey", "rsa:2048"][..],
        &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"],
        &["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:secp384r1"],
        &["-newkey", "ed25519"],
    ] {
        let files = CertificateFiles { cert: ca.path("made.crt"), key: ca.path("made.key") };
        let mut openssl = Command::new("openssl");
        openssl.args(["req", "-x509", "-nodes", "-days", "30", "-subj", "/CN=a.example.org"]).args(kind);
        openssl.args(["-addext", "subjectAltName=DNS:a.example.org", "-out"]).arg(&files.cert);
        assert!(openssl.arg("-keyout").arg(&files.key).output().unwrap().status.success(), "{kind:?}");
        load(&[&files]).unwrap_or_else(|error| panic!("{kind:?}: {error}"));
    }
}

// Fails when a year of two digits is always of this century, or when months count from zero.
#[test]
fn validity_period_equals_dates_of_certificate() {
    let ca = Ca::new();
    for (year, month, day, seconds) in [
        (1970, 1, 1, 0),
        (1999, 12, 31, 946_598_400),
        (2024, 2, 29, 1_709_164_800),
        (2049, 12, 31, 2_524_521_600),
        (2050, 1, 1, 2_524_608_000),
        (2400, 2, 29, 13_574_563_200),
    ] {
        let files = ca.issue_with("dated", &["a.example.org"], |params| {
            params.not_before = rcgen::date_time_ymd(1970, 1, 1);
            params.not_after = rcgen::date_time_ymd(year, month, day);
        });
        let der = CertificateDer::from_pem_file(files.cert).unwrap();
        let not_after = Timestamp::from_millis(seconds * 1_000);
        assert_eq!(
            ValidityPeriod::of(&der),
            Some(ValidityPeriod { not_before: Timestamp::EPOCH, not_after }),
            "{year}"
        );
        for end in 0..der.len().min(200) {
            assert_eq!(ValidityPeriod::of(&der[..end]), None, "cut at {end}");
        }
    }
    let forever = ca.issue_with("dated", &["a.example.org"], |params| {
        params.not_after = rcgen::date_time_ymd(9999, 12, 31);
    });
    assert_eq!(load(&[&forever]).unwrap().expires_at(), Some(Timestamp::MAX));
}

#[test]
fn exposed_key_and_near_expiry_cause_warnings() {
    let (ca, now) = (Ca::new(), SystemClock.now());
    let fine = ca.issue("fine", &["a.example.org"]);
    assert_eq!(load(&[&fine]).unwrap().warnings(now), []);
    fs::set_permissions(&fine.key, PermissionsExt::from_mode(0o644)).unwrap();
    let warnings = load(&[&fine]).unwrap().warnings(now);
    assert_eq!(warnings, [Warning::Exposed { key: fine.key.clone() }]);
    assert!(warnings[0].to_string().contains("`chmod o-r "), "{}", warnings[0]);
    fs::set_permissions(&fine.key, PermissionsExt::from_mode(0o640)).unwrap();
    let dated = ca.issue_with("dated", &["a.example.org"], |params| {
        params.not_after = rcgen::date_time_ymd(2050, 1, 1);
    });
    let certificates = load(&[&fine, &dated]).unwrap();
    let end = Timestamp::from_millis(2_524_608_000_000);
    assert_eq!(certificates.expires_at(), Some(end));
    let before =
        |days| Timestamp::from_nanos(end.as_nanos() - u64::try_from((DAY * days).as_nanos()).unwrap());
    assert_eq!(certificates.warnings(before(15)), []);
    let warnings = certificates.warnings(before(13));
    assert_eq!(warnings, [Warning::Expires { cert: dated.cert.clone(), not_after: end }]);
    assert!(
        warnings[0].to_string().ends_with("ends on 2050-01-01 at 00:00 UTC; renew it"),
        "{}",
        warnings[0]
    );
    let early = ca.issue_with("early", &["a.example.org"], |params| {
        params.not_before = rcgen::date_time_ymd(2090, 1, 1);
    });
    assert!(matches!(&load(&[&early]).unwrap().warnings(now)[..], [Warning::NotYetValid { .. }]));
}
