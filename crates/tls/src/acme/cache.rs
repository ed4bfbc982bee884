//! ACME cache: the account key and the issued certificate with its key, in a folder that only this user can
//! read.
//!
//! Each CA has its own folder, so a change from a staging directory to production starts with a new account.

use crate::ValidityPeriod;
use crate::acme::settings::Acme;
use anyhow::Context;
use hivemind_config::bounded_file::read_bounded;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::fs::{DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use webpki::EndEntityCert;

/// No file in the cache is larger.
const LARGEST: u64 = 1 << 20;
/// Size of the probe file: about the size of a certificate chain.
const CHAIN: usize = 16 << 10;

pub(super) struct Cache {
    folder: PathBuf,
}

impl Cache {
    pub(super) fn of(acme: &Acme) -> Self {
        let directory = acme.directory.split("//").nth(1).unwrap_or(&acme.directory);
        let host = directory.split('/').next().unwrap_or_default();
        let is_sound = |letter: char| letter.is_ascii_alphanumeric() || letter == '.' || letter == '-';
        let name: String = host.chars().map(|letter| if is_sound(letter) { letter } else { '_' }).collect();
        Self { folder: acme.cache.join(name) }
    }

    /// Creates the folder if it is missing, with access for this user only.
    pub(super) fn open(&self) -> anyhow::Result<()> {
        let context = || {
            format!(
                "`gateway.tls.acme.cache`: {} must be a folder that this process can write to",
                self.folder.display()
            )
        };
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder).with_context(context)?;
        std::fs::set_permissions(&self.folder, Permissions::from_mode(0o700)).with_context(context)?;
        self.probe().with_context(context)
    }

    /// Checks that a certificate can be stored before an order is made, because the CA counts what it issues.
    /// Writes as much as a chain may need.
    pub(super) fn probe(&self) -> io::Result<()> {
        self.write(Path::new("probe"), &[b'#'; CHAIN])?;
        std::fs::remove_file(self.folder.join("probe"))
    }

    pub(super) fn certificate(&self) -> PathBuf {
        self.folder.join("certificate.pem")
    }

    /// Validity period of the cached certificate; `None` unless it covers all of `domains`.
    pub(super) fn validity(&self, domains: &[String]) -> Option<ValidityPeriod> {
        Self::validity_of(&read_bounded(&self.certificate(), LARGEST).ok()?, domains)
    }

    /// The same for a key and chain that are not stored yet.
    pub(super) fn validity_of(text: &str, domains: &[String]) -> Option<ValidityPeriod> {
        let certificate = CertificateDer::from_pem_slice(text.as_bytes()).ok()?;
        let parsed = EndEntityCert::try_from(&certificate).ok()?;
        let names: Vec<&str> = parsed.valid_dns_names().collect();
        let is_for = |domain: &String| names.iter().any(|name| name.eq_ignore_ascii_case(domain));
        domains.iter().all(is_for).then(|| ValidityPeriod::of(&certificate))?
    }

    /// Stores a key with its chain, atomically.
    pub(super) fn store(&self, pem: &str) -> io::Result<()> {
        self.write(Path::new("certificate.pem"), pem.as_bytes())
    }

    pub(super) fn account(&self) -> Option<String> {
        read_bounded(&self.account_file(), LARGEST).ok()
    }

    pub(super) fn account_file(&self) -> PathBuf {
        self.folder.join("account.json")
    }

    pub(super) fn store_account(&self, credentials: &str) -> io::Result<()> {
        self.write(Path::new("account.json"), credentials.as_bytes())
    }

    pub(super) fn forget_account(&self) {
        // If the removal fails, the account is removed at the next attempt.
        let _ = std::fs::remove_file(self.folder.join("account.json"));
    }

    fn write(&self, name: &Path, text: &[u8]) -> io::Result<()> {
        let next = self.folder.join(name).with_extension("next");
        // A leftover file may have another mode.
        let _ = std::fs::remove_file(&next);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&next)?;
        file.write_all(text)?;
        file.sync_all()?;
        std::fs::rename(&next, self.folder.join(name))
    }
}
