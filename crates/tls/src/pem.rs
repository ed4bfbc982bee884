//! Certificates and private keys in PEM, read from files that another program may have written.

use super::TlsError;
use rustls::pki_types::pem::{Error, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// A bundle of all public CAs has 250 KB.
const MOST_BYTES: u64 = 1 << 20;
/// A bundle of all public CAs has 150.
const MOST_CERTIFICATES: usize = 500;

/// The certificates of a file; at least one.
pub(super) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(file)?;
    let found: Result<Vec<_>, _> =
        CertificateDer::pem_slice_iter(&text).take(MOST_CERTIFICATES + 1).collect();
    let found = found.map_err(|_| TlsError::NotPem { file: file.to_owned() })?;
    match found.len() {
        0 if is_der(&text) => Err(TlsError::NotPem { file: file.to_owned() }),
        0 => Err(TlsError::NoCertificate { file: file.to_owned() }),
        1..=MOST_CERTIFICATES => Ok(found),
        _ => Err(TlsError::TooManyCertificates { file: file.to_owned(), most: MOST_CERTIFICATES }),
    }
}

/// The first private key of a file.
pub(super) fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let text = read(file)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        Error::NoItemsFound if !is_der(&text) => TlsError::NoKey { file: file.to_owned() },
        _ => TlsError::NotPem { file: file.to_owned() },
    })
}

pub(super) fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    let mut text = Vec::new();
    let read = File::open(file).and_then(|opened| opened.take(MOST_BYTES + 1).read_to_end(&mut text));
    read.map_err(|cause| TlsError::Unreadable { file: file.to_owned(), cause })?;
    if text.len() as u64 > MOST_BYTES {
        return Err(TlsError::TooLarge { file: file.to_owned(), most: MOST_BYTES });
    }
    Ok(text)
}

/// Whether the bytes are DER: a sequence with a length of more than one byte.
fn is_der(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x30, 0x81]) || bytes.starts_with(&[0x30, 0x82])
}
