//! `hivemind certs`: a CA and certificates in one command each, verified by openssl, with protection against
//! overwritten keys.

use hivemind_testkit::hivemind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

fn certs(arguments: &[&str]) -> (Option<i32>, String) {
    let mut all = vec!["certs"];
    all.extend(arguments);
    hivemind(&all)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Runs openssl and returns whether it succeeded, with its output.
fn openssl(arguments: &[&str]) -> (bool, String) {
    let output = Command::new("openssl").args(arguments).output().unwrap();
    let output_text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&output_text).into_owned())
}

#[test]
fn ca_and_node_certificates_verify_as_server_and_client() {
    let folder = tempfile::tempdir().unwrap();
    let (ca, node) = (folder.path().join("deep/ca"), folder.path().join("node-1"));
    let (code, output_text) = certs(&["ca", "--out", text(&ca)]);
    assert_eq!(code, Some(0), "{output_text}");
    let (code, output_text) = certs(&["node", "--ca", text(&ca), "--name", "Node-1", "--out", text(&node)]);
    assert_eq!(code, Some(0), "{output_text}");
    assert!(
        output_text.contains("storage: {kind: mesh}") && output_text.contains("tls: {ca: "),
        "{output_text}"
    );
    for file in ["ca.crt", "node.crt", "node.key"] {
        assert!(node.join(file).is_file(), "{file} of {output_text}");
    }
    assert!(!node.join("ca.key").exists(), "a node does not need the key of its CA");
    for key in [ca.join("ca.key"), node.join("node.key")] {
        let mode = key.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{}", key.display());
    }
    let (ca, cert) = (node.join("ca.crt"), node.join("node.crt"));
    for purpose in ["sslserver", "sslclient"] {
        let verify = ["verify", "-x509_strict", "-purpose", purpose, "-verify_hostname", "node-1", "-CAfile"];
        let (good, output_text) = openssl(&[&verify[..], &[text(&ca), text(&cert)]].concat());
        assert!(good, "{output_text}");
    }
    let other = ["verify", "-verify_hostname", "node-2", "-CAfile", text(&ca), text(&cert)];
    assert!(!openssl(&other).0, "it is not valid for other names");
}

#[test]
fn existing_keys_are_replaced_only_with_force() {
    let folder = tempfile::tempdir().unwrap();
    let (ca, node) = (folder.path().join("ca"), folder.path().join("node"));
    let make_ca = ["ca", "--out", text(&ca)];
    let make_node = ["node", "--ca", text(&ca), "--name", "a", "--out", text(&node)];
    for (make, key) in [(&make_ca[..], ca.join("ca.key")), (&make_node[..], node.join("node.key"))] {
        assert_eq!(certs(make).0, Some(0));
        let before = std::fs::read(&key).unwrap();
        let (code, output_text) = certs(make);
        assert_eq!(code, Some(1), "{output_text}");
        assert!(output_text.contains(text(&key)) && output_text.contains("--force"), "{output_text}");
        assert_eq!(std::fs::read(&key).unwrap(), before);
        assert_eq!(certs(&[make, &["--force"]].concat()).0, Some(0));
        assert_ne!(std::fs::read(&key).unwrap(), before);
        assert_eq!(key.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let left: Vec<_> =
            std::fs::read_dir(key.parent().unwrap()).unwrap().map(|f| f.unwrap().file_name()).collect();
        assert!(left.iter().all(|name| !name.to_str().unwrap().contains("next")), "{left:?}");
    }
    // The folder contains the CA from before the replacement; the operator must distribute the new one.
    let (code, output_text) = certs(&[&make_node[..], &["--force"]].concat());
    assert_eq!(code, Some(0), "{output_text}");
}

#[test]
fn certificate_names_may_be_several_a_pod_or_a_wildcard() {
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca");
    assert_eq!(certs(&["ca", "--out", text(&ca)]).0, Some(0));
    for (names, good, bad) in [
        (&["a", "b"][..], "b", "c"),
        (&["shop/api-0"], "api-0.shop.pod", "api-1.shop.pod"),
        (&["*.shop.pod"], "api-1.shop.pod", "api-1.other.pod"),
    ] {
        let out = folder.path().join(names[0].replace('/', "_"));
        let mut line = vec!["node", "--ca", text(&ca), "--out", text(&out)];
        for name in names {
            line.extend(["--name", name]);
        }
        let (code, output_text) = certs(&line);
        assert_eq!(code, Some(0), "{output_text}");
        let (ca, cert) = (out.join("ca.crt"), out.join("node.crt"));
        for (name, is_good) in [(good, true), (bad, false)] {
            let (verified, output_text) =
                openssl(&["verify", "-verify_hostname", name, "-CAfile", text(&ca), text(&cert)]);
            assert_eq!(verified, is_good, "{name}: {output_text}");
        }
    }
}

#[test]
fn certificate_lifetime_is_as_requested_within_its_ca() {
    let folder = tempfile::tempdir().unwrap();
    let (ca, node) = (folder.path().join("ca"), folder.path().join("node"));
    assert_eq!(certs(&["ca", "--out", text(&ca), "--days", "2"]).0, Some(0));
    let (code, output_text) =
        certs(&["node", "--ca", text(&ca), "--name", "a", "--out", text(&node), "--days", "9"]);
    assert_eq!(code, Some(0), "{output_text}");
    assert!(output_text.contains("expires with its CA"), "{output_text}");
    let cert = node.join("node.crt");
    let day = 24 * 3_600;
    for (seconds, is_good) in [(day, true), (3 * day, false)] {
        let seconds = seconds.to_string();
        assert_eq!(openssl(&["x509", "-checkend", &seconds, "-in", text(&cert)]).0, is_good, "{seconds}");
    }
}

#[test]
fn invalid_arguments_and_files_are_reported_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let (ca, other) = (folder.path().join("ca"), folder.path().join("other"));
    for folder in [&ca, &other] {
        assert_eq!(certs(&["ca", "--out", text(folder)]).0, Some(0));
    }
    let out = folder.path().join("node");
    let nowhere = folder.path().join("nowhere");
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let below_a_file = file.join("node");
    // A CA certificate with another key would make certificates that no peer accepts.
    let mixed = folder.path().join("mixed");
    std::fs::create_dir(&mixed).unwrap();
    std::fs::copy(ca.join("ca.crt"), mixed.join("ca.crt")).unwrap();
    std::fs::copy(other.join("ca.key"), mixed.join("ca.key")).unwrap();
    for (ca, name, out, words) in [
        (&nowhere, "a", &out, &["ca.crt", "hivemind certs ca"][..]),
        (&ca, "two words", &out, &["two words", "letters, digits"]),
        (&ca, "192.0.2.1", &out, &["192.0.2.1", "letters, digits"]),
        (&ca, "*.pod", &out, &["*.pod", "letters, digits"]),
        (&ca, "a", &below_a_file, &["cannot be written", "check the folder"]),
        (&mixed, "a", &out, &["ca.key", "key of the CA certificate"]),
    ] {
        let (code, output_text) = certs(&["node", "--ca", text(ca), "--name", name, "--out", text(out)]);
        assert!(code.is_some_and(|code| code != 0), "{name}: {output_text}");
        assert!(words.iter().all(|word| output_text.contains(word)), "{words:?} in {output_text}");
        assert!(!out.join("node.key").exists(), "{output_text}");
    }
    for days in ["0", "36501", "ten"] {
        let (code, output_text) = certs(&["ca", "--out", text(&out), "--days", days]);
        assert!(code == Some(2) && output_text.contains("days from 1 to"), "{output_text}");
    }
}

#[test]
fn help_shows_both_commands_and_the_configuration() {
    let (code, output_text) = certs(&["--help"]);
    assert_eq!(code, Some(0));
    for words in
        ["certs ca --out", "certs node --ca ca --name node-1 --out node-1", "kind: mesh", "tls: {ca:"]
    {
        assert!(output_text.contains(words), "{words} in {output_text}");
    }
}
