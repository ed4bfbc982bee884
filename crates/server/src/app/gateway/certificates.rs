//! The gateway's certificates, loaded before anything is served.

use crate::config::gateway as settings;
use crate::tls::{Certificates, Protocol, TlsError, server_config};
use hivemind_core::{Clock, SystemClock};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// What TLS is spoken with, and the certificates that it shows.
pub(super) fn load(tls: &settings::Tls) -> Result<(TlsAcceptor, Arc<Certificates>), TlsError> {
    let certificates = Arc::new(Certificates::load(tls.certificates.clone(), SystemClock.now())?);
    let protocols = [Protocol::Http2, Protocol::Http1];
    let config = server_config(Arc::clone(&certificates), &protocols, tls.only_tls13, None)?;
    Ok((config.into(), certificates))
}
