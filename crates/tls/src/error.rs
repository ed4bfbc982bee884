//! Errors of TLS files and handshakes. No text quotes a file, which may contain a key.

use hivemind_core::Timestamp;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// Why certificates cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{}: cannot be read: {cause}; check that the file exists and that this user can read it", file.display())]
    Unreadable { file: PathBuf, cause: io::Error },
    #[error("{}: has more than {most} bytes; use a file that contains only the PEM text", file.display())]
    TooLarge { file: PathBuf, most: u64 },
    #[error("{}: is not PEM text; convert DER with `openssl x509 -inform der -in FILE`, or `openssl pkey` for a key", file.display())]
    NotPem { file: PathBuf },
    #[error("{}: has no certificate; write the chain as PEM, the server's own certificate first", file.display())]
    NoCertificate { file: PathBuf },
    #[error("{}: has more than {most} certificates; write the chain of one server", file.display())]
    TooManyCertificates { file: PathBuf, most: usize },
    #[error("{}: the first certificate cannot be used: {cause}; have a new one issued, of version 3", file.display())]
    BadCertificate { file: PathBuf, cause: String },
    #[error("{}: has no private key, or an encrypted one; write PKCS#8, PKCS#1 or SEC1 as PEM, without a password", file.display())]
    NoKey { file: PathBuf },
    #[error("{}: unsupported type of private key; use RSA of at least 2048 bits, ECDSA P-256 or P-384, or Ed25519", file.display())]
    BadKey { file: PathBuf },
    #[error("{}: the key does not match the certificate in {}; use a certificate and a key that were issued together", key.display(), cert.display())]
    Mismatch { cert: PathBuf, key: PathBuf },
    #[error("{}: the certificate expired {}; renew it", file.display(), format_time(*not_after))]
    Expired { file: PathBuf, not_after: Timestamp },
    #[error("no certificate is configured; set at least one with its key")]
    Empty,
    #[error("{}: cannot be used as a CA: {cause}; write the certificates of the CA as PEM", file.display())]
    Ca { file: PathBuf, cause: String },
    #[error("the system trusts no CA: {cause}; install ca-certificates, or set the upstream's CA")]
    NoSystemRoots { cause: String },
    #[error("TLS cannot be set up: {0}")]
    Rustls(#[from] rustls::Error),
}

/// Why a handshake produced no connection. Usually the client is the cause.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    #[error("the client took longer than {0:?}")]
    Late(Duration),
    #[error("{0}")]
    Failed(io::Error),
    #[error("the connection was the challenge of a CA")]
    Challenge,
}

/// Formats a time for operators: `on 2026-11-16 at 04:12 UTC`.
pub fn format_time(moment: Timestamp) -> String {
    let seconds = i64::try_from(moment.as_nanos() / 1_000_000_000).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).map_or_else(
        |_| "at an unknown time".to_owned(),
        |moment| moment.strftime("on %Y-%m-%d at %H:%M UTC").to_string(),
    )
}
