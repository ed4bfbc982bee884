//! TLS configuration of the gateway, loaded before anything is served.

use hivemind_core::{Clock, SystemClock};
use hivemind_gateway::settings;
use hivemind_tls::acme;
use hivemind_tls::{CertificateFiles, Protocol, ServerCertificates, TlsError, server_config};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// Loads the TLS acceptor and the certificates that it serves.
pub(super) fn load(tls: &settings::ListenerTls) -> Result<(TlsAcceptor, Arc<ServerCertificates>), TlsError> {
    let (files, now) = (tls.certificates.clone(), SystemClock.now());
    let mut protocols = vec![Protocol::Http2, Protocol::Http1];
    let certificates = match &tls.acme {
        None => ServerCertificates::load(files, now)?,
        Some(of) => {
            protocols.push(Protocol::Challenge);
            let file = acme::file(of);
            ServerCertificates::load_awaiting(files, CertificateFiles { cert: file.clone(), key: file }, now)
        }
    };
    let certificates = Arc::new(certificates);
    let config = server_config(Arc::clone(&certificates), &protocols, tls.only_tls13, None)?;
    Ok((config.into(), certificates))
}
