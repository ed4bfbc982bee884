//! `gateway.tls.acme`: the CA that issues a certificate, and its domains.

use hivemind_config::reader::Section;
use hivemind_config::value_kind::{PATH, ValueKind};
use std::path::PathBuf;

/// `gateway.tls.acme`: a CA issues a certificate for these domains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acme {
    pub domains: Vec<String>,
    pub contact: Vec<String>,
    /// The folder of the certificate and of the account's key.
    pub cache: PathBuf,
    /// The CA's directory.
    pub directory: String,
    /// The CA that signed the directory's own certificate; `None`: a CA of the system.
    pub ca: Option<PathBuf>,
}

/// CAs refuse a certificate for more names.
const MOST_DOMAINS: usize = 100;
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// A DNS name. The challenge over a TLS port cannot validate a wildcard.
const DOMAIN: ValueKind<String> =
    ValueKind::text("a DNS name without a wildcard", "shop.example.com", |text| {
        let is_label = |label: &str| {
            let is_sound = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
            (1..=63).contains(&label.len()) && label.chars().all(is_sound) && !label.starts_with('-')
        };
        let is_name = text.len() <= 253 && text.contains('.') && text.split('.').all(is_label);
        (is_name && text.parse::<std::net::Ipv4Addr>().is_err()).then(|| text.to_ascii_lowercase())
    })
    .called("name", "names");
const CONTACT: ValueKind<String> =
    ValueKind::text("an address as mailto:", "mailto:ops@example.com", |text| {
        let is_sound = text.strip_prefix("mailto:").is_some_and(|address| address.contains('@'));
        (is_sound && !text.contains([' ', ',', '?'])).then(|| text.to_owned())
    })
    .called("`mailto:` address", "them");
const DIRECTORY: ValueKind<String> =
    ValueKind::text("the https:// URL of a CA's directory", LETS_ENCRYPT, |text| {
        let uri = text.parse::<hyper::Uri>().ok()?;
        (uri.scheme_str() == Some("https") && uri.host().is_some()).then(|| text.to_owned())
    })
    .called("URL", "URLs");

/// Reads `gateway.tls.acme`.
pub fn read(tls: &mut Section<'_, '_>) -> Option<Acme> {
    let is_there = tls.has("acme");
    let mut section = tls.section("acme");
    let domains = section.one_or_list("domains", &DOMAIN);
    let contact = section.one_or_list("contact", &CONTACT);
    let cache = section.read("cache", &PATH);
    let directory = section.read("directory", &DIRECTORY).unwrap_or_else(|| LETS_ENCRYPT.to_owned());
    let ca = section.read("ca", &PATH);
    if is_there && !section.has("domains") {
        let remedy = "set the DNS names of the gateway, as in `domains: [shop.example.com]`";
        section.lacks("`gateway.tls.acme` has no `domains`".into(), remedy);
    }
    if domains.len() > MOST_DOMAINS {
        let cause = format!("`gateway.tls.acme.domains` has more than {MOST_DOMAINS}");
        section.refuse(
            "domains",
            cause,
            "CAs issue no certificate for more; use `certificates` for the others",
        );
    }
    if is_there && !section.has("cache") {
        let remedy =
            "set a persistent folder, as in `cache: /var/lib/hivemind/acme`: CAs limit how many they issue";
        section.lacks("`gateway.tls.acme` has no `cache`".into(), remedy);
    }
    Some(Acme { domains, contact, cache: cache?, directory, ca })
        .filter(|acme| is_there && !acme.domains.is_empty())
}
