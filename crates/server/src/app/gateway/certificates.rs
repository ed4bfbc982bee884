//! The gateway's certificates: loaded before anything is served, followed while it runs.

use crate::config::gateway as settings;
use crate::tls::{Certificates, Changed, Protocol, TlsError, server_config};
use hivemind_core::{Clock, SystemClock};
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::Signal;
use tokio_rustls::TlsAcceptor;

/// How often the files are looked at: whoever renews a certificate does so days before it ends.
const LOOK: Duration = Duration::from_secs(10);

/// What TLS is spoken with, and the certificates that it shows.
pub(super) fn load(tls: &settings::Tls) -> Result<(TlsAcceptor, Arc<Certificates>), TlsError> {
    let certificates = Arc::new(Certificates::load(tls.certificates.clone(), SystemClock.now())?);
    for warning in certificates.warnings(SystemClock.now()) {
        tracing::warn!("{warning}");
    }
    let protocols = [Protocol::Http2, Protocol::Http1];
    let config = server_config(Arc::clone(&certificates), &protocols, tls.only_tls13, None)?;
    Ok((config.into(), certificates))
}

/// Puts in force what the files become. Connections that are open keep what they were shown.
pub(super) async fn follow(certificates: Arc<Certificates>, mut hangup: Signal) {
    let mut looks = tokio::time::interval(LOOK);
    let mut told = None;
    loop {
        tokio::select! {
            _ = looks.tick() => {}
            _ = hangup.recv() => {}
        }
        match tokio::task::block_in_place(|| certificates.reload(SystemClock.now())) {
            Ok(Changed::Yes) => {
                told = None;
                tracing::info!("new certificates are in force");
                for warning in certificates.warnings(SystemClock.now()) {
                    tracing::warn!("{warning}");
                }
            }
            Ok(Changed::No) => told = None,
            Err(error) => {
                // Once for each cause: the files stay as they are until somebody changes them.
                let error = error.to_string();
                if told.as_ref() != Some(&error) {
                    tracing::error!("the certificates in force are kept: {error}");
                    told = Some(error);
                }
            }
        }
    }
}
