//! What a CA gave, kept in a folder that only this user looks into: the account's key, and the certificate with its own.
//! Each CA has a folder of its own, so that whoever changes from a trial directory to a real one begins anew.

use crate::Validity;
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

/// No file of ours is larger.
const LARGEST: u64 = 1 << 20;
/// As much as a chain has.
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

    /// Makes the folder where there is none, for this user alone.
    pub(super) fn open(&self) -> anyhow::Result<()> {
        let told = || {
            format!(
                "`gateway.tls.acme.cache`: {} has to be a folder that this process can write to",
                self.folder.display()
            )
        };
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder).with_context(told)?;
        std::fs::set_permissions(&self.folder, Permissions::from_mode(0o700)).with_context(told)?;
        self.probe().with_context(told)
    }

    /// Whether what a CA gives can be kept: it counts what it has given. As much is written as a chain may have.
    pub(super) fn probe(&self) -> io::Result<()> {
        self.write(Path::new("probe"), &[b'#'; CHAIN])?;
        std::fs::remove_file(self.folder.join("probe"))
    }

    pub(super) fn certificate(&self) -> PathBuf {
        self.folder.join("certificate.pem")
    }

    /// From when until when the kept certificate counts; none if there is none for all of these domains.
    pub(super) fn validity(&self, domains: &[String]) -> Option<Validity> {
        Self::validity_of(&read_bounded(&self.certificate(), LARGEST).ok()?, domains)
    }

    /// The same of a key with its chain that is not kept yet.
    pub(super) fn validity_of(text: &str, domains: &[String]) -> Option<Validity> {
        let certificate = CertificateDer::from_pem_slice(text.as_bytes()).ok()?;
        let parsed = EndEntityCert::try_from(&certificate).ok()?;
        let names: Vec<&str> = parsed.valid_dns_names().collect();
        let is_for = |domain: &String| names.iter().any(|name| name.eq_ignore_ascii_case(domain));
        domains.iter().all(is_for).then(|| Validity::of(&certificate))?
    }

    /// Keeps a key with its chain, in one step.
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
        // Where it stays, it is forgotten at the next try.
        let _ = std::fs::remove_file(self.folder.join("account.json"));
    }

    fn write(&self, name: &Path, text: &[u8]) -> io::Result<()> {
        let next = self.folder.join(name).with_extension("next");
        // One that was left behind may be of another mode.
        let _ = std::fs::remove_file(&next);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&next)?;
        file.write_all(text)?;
        file.sync_all()?;
        std::fs::rename(&next, self.folder.join(name))
    }
}
