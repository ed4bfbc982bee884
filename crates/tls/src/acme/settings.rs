//! `gateway.tls.acme`: the CA that gives a certificate, and for which domains.

use hivemind_config::reader::Section;
use hivemind_config::value_kind::{PATH, ValueKind};
use std::path::PathBuf;

/// `gateway.tls.acme`: a CA gives a certificate for these domains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acme {
    pub domains: Vec<String>,
    pub contact: Vec<String>,
    /// Where its certificate and the account's key are kept.
    pub cache: PathBuf,
    /// The CA's directory.
    pub directory: String,
    /// The CA that the directory's own certificate is checked with; none: the system's.
    pub ca: Option<PathBuf>,
}

/// More names than this a CA does not put into one certificate.
const MOST_DOMAINS: usize = 100;
const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// A name that is found by DNS. One with a wildcard cannot be shown to be ours by a port.
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

/// A certificate of a CA that is asked for it.
pub fn read(tls: &mut Section<'_, '_>) -> Option<Acme> {
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
