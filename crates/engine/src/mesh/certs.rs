//! Private CA of a mesh, and certificates for its nodes. Peers accept each certificate of their CA, so the
//! CA's key controls access to the mesh: it is written once, readable only by its owner, and never replaced without
//! `--force`.

use super::name::CertifiedName;
use hivemind_core::Timestamp;
use hivemind_tls::ValidityPeriod;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Common name of the CA certificate.
const CA_NAME: &str = "Hivemind mesh CA";
/// Certificates are valid from a day before their creation, because clocks of peers differ. In nanoseconds.
const BEFORE: u64 = 86_400_000_000_000;
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// Maximum size of a CA file.
const LARGEST: u64 = 1 << 20;

/// Why a certificate could not be created.
#[derive(Debug, thiserror::Error)]
pub enum CertsError {
    #[error("{}: already exists and may be in use; choose another --out, or replace it with --force", .0.display())]
    Exists(PathBuf),
    #[error("{}: cannot be written: {cause}; check the folder and its permissions", file.display())]
    Unwritable { file: PathBuf, cause: io::Error },
    #[error("{}: cannot be read: {cause}; create a CA with `hivemind certs ca --out {}`", file.display(), folder.display())]
    NoCa { file: PathBuf, folder: PathBuf, cause: io::Error },
    #[error("{}: not a usable {what}; create a CA with `hivemind certs ca --out {}`", file.display(), folder.display())]
    BadCa { file: PathBuf, folder: PathBuf, what: &'static str },
    #[error("{}: the CA has expired; create a new one with `hivemind certs ca --out {} --force`, then new certificates for all nodes", file.display(), folder.display())]
    Expired { file: PathBuf, folder: PathBuf },
    #[error("the certificate cannot be created: {0}")]
    Unmade(#[from] rcgen::Error),
}

/// The validity period of a certificate.
#[derive(Clone, Copy, Debug)]
pub struct Term {
    pub now: Timestamp,
    pub days: u32,
}

impl Term {
    fn ends(self) -> Timestamp {
        self.now.saturating_add(DAY.saturating_mul(self.days))
    }
}

/// A CA that can sign certificates.
pub struct CertificateAuthority {
    issuer: Issuer<'static, KeyPair>,
    /// The CA certificate.
    pem: String,
    ends: Timestamp,
}

/// A created certificate.
#[derive(Debug)]
pub struct IssuedCertificate {
    pub ends: Timestamp,
    /// Whether the certificate ends earlier than requested, because its CA does.
    pub is_cut: bool,
    /// Whether the folder has a different `ca.crt`, which was not changed.
    pub keeps_ca: bool,
}

impl CertificateAuthority {
    /// Creates a CA: `ca.crt` and `ca.key` in this folder.
    pub fn make(folder: &Path, term: Term, force: bool) -> Result<Self, CertsError> {
        let mut params = params(term.now, term.ends(), CA_NAME);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        let pem = certificate.pem();
        write_pair(folder, ("ca.crt", &pem), ("ca.key", &key.serialize_pem()), force)?;
        Ok(Self { issuer: Issuer::new(params, key), pem, ends: term.ends() })
    }

    /// Opens the CA whose two files are in this folder.
    pub fn open(folder: &Path, now: Timestamp) -> Result<Self, CertsError> {
        let read = |file: &PathBuf| {
            read(file).map_err(|cause| CertsError::NoCa {
                file: file.clone(),
                folder: folder.to_owned(),
                cause,
            })
        };
        let (cert, key) = (folder.join("ca.crt"), folder.join("ca.key"));
        let (pem, key_pem) = (read(&cert)?, read(&key)?);
        let bad =
            |file: &PathBuf, what| CertsError::BadCa { file: file.clone(), folder: folder.to_owned(), what };
        let bad_cert = || bad(&cert, "CA certificate");
        let der = CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|_| bad_cert())?;
        let validity = ValidityPeriod::of(&der).ok_or_else(bad_cert)?;
        let key_pair = KeyPair::from_pem(&key_pem).map_err(|_| bad(&key, "private key"))?;
        let issuer = Issuer::from_ca_cert_der(&der, key_pair).map_err(|_| bad_cert())?;
        if validity.not_after < now {
            return Err(CertsError::Expired { file: cert, folder: folder.to_owned() });
        }
        let authority = Self { issuer, pem, ends: validity.not_after };
        if !authority.believes_itself(&der, now) {
            return Err(bad(&key, "key of the CA certificate in the same folder"));
        }
        Ok(authority)
    }

    /// Creates a node's certificate: `node.crt` and `node.key` in this folder, with a copy of `ca.crt`.
    pub fn issue(
        &self,
        names: &[CertifiedName],
        folder: &Path,
        term: Term,
        force: bool,
    ) -> Result<IssuedCertificate, CertsError> {
        let ends = term.ends().min(self.ends);
        let (pem, key) = self.certificate(names, term.now, ends)?;
        write_pair(folder, ("node.crt", &pem), ("node.key", &key), force)?;
        let ca_file = folder.join("ca.crt");
        // During a CA rotation the operator puts both CAs into this file, so an existing file is kept.
        let existing = read(&ca_file).ok();
        let keeps_ca = existing.as_ref().is_some_and(|existing| !existing.contains(self.pem.trim()));
        if existing.is_none() {
            put(&ca_file, &self.pem, 0o644, force)?;
        }
        Ok(IssuedCertificate { ends, is_cut: ends < term.ends(), keeps_ca })
    }

    fn certificate(
        &self,
        names: &[CertifiedName],
        now: Timestamp,
        ends: Timestamp,
    ) -> Result<(String, String), CertsError> {
        let mut params = params(now, ends, names.first().map_or("node", CertifiedName::as_str));
        for name in names {
            params.subject_alt_names.push(SanType::DnsName(name.as_str().try_into()?));
        }
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // Every node is both client and server.
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok((certificate.pem(), key.serialize_pem()))
    }

    /// Whether its signatures verify with its own certificate, which means that the key belongs to it.
    fn believes_itself(&self, ca: &CertificateDer<'_>, now: Timestamp) -> bool {
        let Ok(name) = CertifiedName::parse("test") else { return false };
        let Ok((pem, _)) = self.certificate(&[name], now, self.ends) else { return false };
        let Ok(node) = CertificateDer::from_pem_slice(pem.as_bytes()) else { return false };
        let (Ok(anchor), Ok(node)) =
            (webpki::anchor_from_trusted_cert(ca), webpki::EndEntityCert::try_from(&node))
        else {
            return false;
        };
        let now = rustls::pki_types::UnixTime::since_unix_epoch(Duration::from_nanos(now.as_nanos()));
        let usage = webpki::KeyUsage::client_auth();
        let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms.all;
        node.verify_for_usage(algorithms, &[anchor], &[], now, usage, None, None).is_ok()
    }
}

fn params(now: Timestamp, ends: Timestamp, name: &str) -> CertificateParams {
    let epoch = date_time_ymd(1970, 1, 1);
    let at = |nanos: u64| epoch + Duration::from_secs(nanos / 1_000_000_000);
    let mut params = CertificateParams::default();
    params.not_before = at(now.as_nanos().saturating_sub(BEFORE));
    params.not_after = at(ends.as_nanos());
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

fn read(file: &Path) -> io::Result<String> {
    if std::fs::metadata(file)?.len() > LARGEST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large"));
    }
    std::fs::read_to_string(file)
}

/// Writes both a certificate and its key, or neither.
fn write_pair(
    folder: &Path,
    (cert_name, cert): (&str, &str),
    (key_name, key): (&str, &str),
    force: bool,
) -> Result<(), CertsError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|cause| CertsError::Unwritable { file: folder.to_owned(), cause })?;
    let (cert_file, key_file) = (folder.join(cert_name), folder.join(key_name));
    if !force {
        for file in [&key_file, &cert_file] {
            if file.symlink_metadata().is_ok() {
                return Err(CertsError::Exists(file.clone()));
            }
        }
    }
    put(&key_file, key, 0o600, force)?;
    let written = put(&cert_file, cert, 0o644, force);
    if written.is_err() && !force {
        // It did not exist before, and is useless without the certificate.
        let _ = std::fs::remove_file(&key_file);
    }
    written
}

/// Writes a new file, or replaces a file atomically, so that readers never see a partial file.
fn put(file: &Path, text: &str, mode: u32, force: bool) -> Result<(), CertsError> {
    let unwritable = |cause: io::Error| match cause.kind() {
        io::ErrorKind::AlreadyExists => CertsError::Exists(file.to_owned()),
        _ => CertsError::Unwritable { file: file.to_owned(), cause },
    };
    if !force {
        return create(file, text, mode).map_err(unwritable);
    }
    let mut next = file.as_os_str().to_owned();
    next.push(".next");
    let next = PathBuf::from(next);
    // A killed writer may have left one. Only a newly created file has the requested mode.
    let _ = std::fs::remove_file(&next);
    create(&next, text, mode).and_then(|()| std::fs::rename(&next, file)).map_err(unwritable)
}

fn create(file: &Path, text: &str, mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(file)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
