//! `gateway.tls`: certificates, and where plain HTTP is sent to them.

use super::kinds::LISTEN_AT;
use super::{Acme, CertificateFiles, Tls};
use hivemind_config::kind::{Kind, PATH};
use hivemind_config::reading::Section;
use std::path::PathBuf;

/// More certificates than this are no list that people write.
const MOST_CERTIFICATES: usize = 1_000;

/// More names than this a CA does not put into one certificate.
const MOST_DOMAINS: usize = 100;
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// A name that is found by DNS. One with a wildcard cannot be shown to be ours by a port.
const DOMAIN: Kind<String> = Kind::text("a DNS name without a wildcard", "shop.example.com", |text| {
    let is_label = |label: &str| {
        let is_sound = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        (1..=63).contains(&label.len()) && label.chars().all(is_sound) && !label.starts_with('-')
    };
    let is_name = text.len() <= 253 && text.contains('.') && text.split('.').all(is_label);
    (is_name && text.parse::<std::net::Ipv4Addr>().is_err()).then(|| text.to_ascii_lowercase())
})
.called("name", "names");
const CONTACT: Kind<String> = Kind::text("an address as mailto:", "mailto:ops@example.com", |text| {
    let is_sound = text.strip_prefix("mailto:").is_some_and(|address| address.contains('@'));
    (is_sound && !text.contains([' ', ',', '?'])).then(|| text.to_owned())
})
.called("`mailto:` address", "them");
const DIRECTORY: Kind<String> = Kind::text("the https:// URL of a CA's directory", LETS_ENCRYPT, |text| {
    let uri = text.parse::<hyper::Uri>().ok()?;
    (uri.scheme_str() == Some("https") && uri.host().is_some()).then(|| text.to_owned())
})
.called("URL", "URLs");

pub(super) fn read(section: &mut Section<'_, '_>) -> Option<Tls> {
    let is_there = section.has("tls");
    let mut tls = section.section("tls");
    let mut certificates: Vec<CertificateFiles> = pair(&mut tls).into_iter().collect();
    let of_its_own = tls.has("cert") || tls.has("key");
    tls.each("certificates", |item| {
        let files = pair(item);
        if files.is_none() && item.is_there() && !item.has("cert") && !item.has("key") {
            item.lacks("a certificate is two files, `cert` and `key`".into(), "name both");
        }
        certificates.extend(files);
    });
    if of_its_own && tls.has("certificates") {
        let cause = "`cert` and `key` are one certificate, `certificates` are several, and both are here";
        tls.refuse("certificates", cause.to_owned(), "put all of them into `certificates`");
    }
    if certificates.len() > MOST_CERTIFICATES {
        let cause = format!("`gateway.tls.certificates` is at most {MOST_CERTIFICATES} certificates");
        tls.refuse("certificates", cause, "use one that has several names");
    }
    let redirect_from = tls.read("redirect_from", &LISTEN_AT);
    let only_tls13 = tls.choice("min_version", &[("1.2", false), ("1.3", true)]).unwrap_or(false);
    let has_acme = tls.has("acme");
    let acme = acme(&mut tls);
    if is_there && !of_its_own && !has_acme && !tls.has("certificates") {
        let cause = "`gateway.tls` names no certificate".to_owned();
        let remedy = "write `cert: FILE` and `key: FILE`, or `acme`, or leave `tls` out";
        section.refuse("tls", cause, remedy);
    }
    is_there.then_some(Tls { certificates, acme, redirect_from, only_tls13 })
}

/// A certificate of a CA that is asked for it.
fn acme(tls: &mut Section<'_, '_>) -> Option<Acme> {
    let is_there = tls.has("acme");
    let mut section = tls.section("acme");
    let domains = section.one_or_list("domains", &DOMAIN);
    let contact = section.one_or_list("contact", &CONTACT);
    let cache = section.read("cache", &PATH);
    let directory = section.read("directory", &DIRECTORY).unwrap_or_else(|| LETS_ENCRYPT.to_owned());
    let ca = section.read("ca", &PATH);
    if is_there && !section.has("domains") {
        let remedy = "name what clients call the gateway, as in `domains: [shop.example.com]`";
        section.lacks("`gateway.tls.acme` has no `domains`".into(), remedy);
    }
    if domains.len() > MOST_DOMAINS {
        let cause = format!("`gateway.tls.acme.domains` has more than {MOST_DOMAINS}");
        section.refuse(
            "domains",
            cause,
            "no CA puts more into one certificate; use `certificates` for the others",
        );
    }
    if is_there && !section.has("cache") {
        let remedy =
            "name a folder that is kept, as in `cache: /var/lib/hivemind/acme`: CAs give only so many";
        section.lacks("`gateway.tls.acme` has no `cache`".into(), remedy);
    }
    Some(Acme { domains, contact, cache: cache?, directory, ca })
        .filter(|acme| is_there && !acme.domains.is_empty())
}

/// The two files of one certificate; one of them alone is a mistake.
fn pair(section: &mut Section<'_, '_>) -> Option<CertificateFiles> {
    let cert: Option<PathBuf> = section.read("cert", &PATH);
    let key: Option<PathBuf> = section.read("key", &PATH);
    for (there, missing) in [("cert", "key"), ("key", "cert")] {
        if section.has(there) && !section.has(missing) {
            let cause = format!("`{there}` is here without `{missing}`");
            section.refuse(there, cause, "a certificate is two files: name both");
        }
    }
    Some(CertificateFiles { cert: cert?, key: key? })
}
