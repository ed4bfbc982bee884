//! `gateway.tls`: certificates, and redirection from HTTP to HTTPS.

use super::ListenerTls;
use super::kinds::LISTEN_AT;
use hivemind_config::reader::Section;
use hivemind_config::value_kind::PATH;
use hivemind_tls::CertificateFiles;
use hivemind_tls::acme::settings as acme;
use std::path::PathBuf;

/// Longer lists are generated or mistaken.
const MOST_CERTIFICATES: usize = 1_000;

pub(super) fn read(section: &mut Section<'_, '_>) -> Option<ListenerTls> {
    let is_there = section.has("tls");
    let mut tls = section.section("tls");
    let mut certificates: Vec<CertificateFiles> = pair(&mut tls).into_iter().collect();
    let of_its_own = tls.has("cert") || tls.has("key");
    tls.each("certificates", |item| {
        let files = pair(item);
        if files.is_none() && item.is_there() && !item.has("cert") && !item.has("key") {
            item.lacks("a certificate has two files, `cert` and `key`".into(), "set both");
        }
        certificates.extend(files);
    });
    if of_its_own && tls.has("certificates") {
        let cause = "`cert` and `key` cannot be combined with `certificates`";
        tls.refuse("certificates", cause.to_owned(), "put all of them into `certificates`");
    }
    if certificates.len() > MOST_CERTIFICATES {
        let cause = format!("`gateway.tls.certificates` has more than {MOST_CERTIFICATES} certificates");
        tls.refuse("certificates", cause, "use certificates with several names");
    }
    let redirect_from = tls.read("redirect_from", &LISTEN_AT);
    let only_tls13 = tls.choice("min_version", &[("1.2", false), ("1.3", true)]).unwrap_or(false);
    let has_acme = tls.has("acme");
    let acme = acme::read(&mut tls);
    if is_there && !of_its_own && !has_acme && !tls.has("certificates") {
        let cause = "`gateway.tls` has no certificate".to_owned();
        let remedy = "write `cert: FILE` and `key: FILE`, or `acme`, or leave `tls` out";
        section.refuse("tls", cause, remedy);
    }
    is_there.then_some(ListenerTls { certificates, acme, redirect_from, only_tls13 })
}

/// The two files of one certificate; one without the other is a mistake.
fn pair(section: &mut Section<'_, '_>) -> Option<CertificateFiles> {
    let cert: Option<PathBuf> = section.read("cert", &PATH);
    let key: Option<PathBuf> = section.read("key", &PATH);
    for (there, missing) in [("cert", "key"), ("key", "cert")] {
        if section.has(there) && !section.has(missing) {
            let cause = format!("`{there}` needs `{missing}`");
            section.refuse(there, cause, "a certificate has two files: set both");
        }
    }
    Some(CertificateFiles { cert: cert?, key: key? })
}
