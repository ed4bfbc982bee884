//! Automatic certificate management (ACME, RFC 8555), with the TLS-ALPN-01 challenge (RFC 8737).
//!
//! The CA validates over the gateway's own TLS port, so no other port has to be open. The issued certificate
//! is stored as a file like any other: the gateway's certificates reload it, and a restart starts with it.
//! While a valid certificate exists, an unreachable CA only causes a log line and a problem in `/readyz`.

mod cache;
mod http;
mod order;
pub mod settings;
#[cfg(test)]
mod tests;

use crate::acme::settings::Acme;
use crate::escape::escape_line;
use crate::{ServerCertificates, ValidityPeriod, format_time};
use cache::Cache;
use hivemind_core::{Clock, SystemClock, Timestamp};
use order::{AcmeError, Orders};
use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// How often the time of renewal is compared with the wall clock, which may be adjusted.
const LOOKS_EVERY: Duration = Duration::from_secs(3_600);
/// Time limit for a whole order.
const ORDERED_WITHIN: Duration = Duration::from_secs(180);
/// First and last delay between attempts while the CA is unreachable; doubles each time.
const AWAY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(600)];
/// First and last delay after the CA refused. CAs count failures and block a client after five in an hour.
const REFUSED: [Duration; 2] = [Duration::from_secs(900), Duration::from_secs(4 * 3_600)];

/// Longest part of a CA's error text that is reported.
const LONGEST_REASON: usize = 500;

const DUE_AT_ONCE: &str = "the issued certificate does not cover all names, or is already due for renewal; check this \
                           machine's clock";

/// The file with the certificate and key for these settings.
pub fn file(acme: &Acme) -> PathBuf {
    Cache::of(acme).certificate()
}

/// Receives the reason why a CA issues no certificate; `None` after it issued one.
pub type Report = Box<dyn Fn(Option<String>) + Send + Sync>;

/// Background task that keeps a certificate for the configured domains.
pub struct Renewal {
    orders: Orders,
    cache: Cache,
    certificates: Arc<ServerCertificates>,
    report: Report,
    directory: String,
    domains: Vec<String>,
}

impl Renewal {
    /// Creates the cache folder, readable by this user only.
    pub fn new(acme: &Acme, certificates: Arc<ServerCertificates>, report: Report) -> anyhow::Result<Self> {
        let cache = Cache::of(acme);
        cache.open()?;
        let orders = Orders::new(acme, Arc::clone(&certificates))?;
        let (directory, domains) = (acme.directory.clone(), acme.domains.clone());
        Ok(Self { orders, cache, certificates, report, directory, domains })
    }

    /// Renews for ever; restarts the renewal task if it panics.
    pub async fn run(self: Arc<Self>) {
        // Dropping the set aborts a renewal that is running.
        let mut renewing = JoinSet::new();
        renewing.spawn(Arc::clone(&self).renew());
        while let Some(Err(error)) = renewing.join_next().await {
            let problem = format!("certificate renewal failed: {error}; restarting in {:?}", REFUSED[0]);
            tracing::error!("{problem}");
            (self.report)(Some(problem));
            wait(REFUSED[0]).await;
            renewing.spawn(Arc::clone(&self).renew());
        }
    }

    async fn renew(self: Arc<Self>) {
        let mut tries = 0;
        loop {
            let now = SystemClock.now();
            let counts = self.cache.validity(&self.domains);
            if let Some(due) = counts.map(renewed_from).filter(|due| *due > now) {
                tries = 0;
                (self.report)(None);
                wait(due.since(now).min(LOOKS_EVERY)).await;
                continue;
            }
            if counts.is_none() && tries == 0 {
                let (domains, directory) = (self.domains.join(", "), &self.directory);
                tracing::warn!(
                    "no certificate for {domains} yet: requesting one from {directory}; TLS handshakes without \
                     another certificate are refused until it is issued"
                );
            }
            let Err(error) = self.order().await else { continue };
            let [first, last] = if error.is_refusal() { REFUSED } else { AWAY };
            let again = first.saturating_mul(1 << tries.min(16)).min(last);
            tries += 1;
            self.report(&error, counts, again);
            wait(again).await;
        }
    }

    async fn order(&self) -> Result<(), AcmeError> {
        let unwritable = |cause| AcmeError::Unwritable { file: self.cache.certificate(), cause };
        self.cache.probe().map_err(unwritable)?;
        let ordered = tokio::time::timeout(ORDERED_WITHIN, self.orders.order(&self.cache)).await;
        self.certificates.answer_no_challenge();
        let certificate = ordered.unwrap_or(Err(AcmeError::Late(ORDERED_WITHIN)))?;
        let now = SystemClock.now();
        // Validated before it replaces the active one. A certificate that is due immediately would be
        // requested again without a pause.
        let counts = Cache::validity_of(&certificate, &self.domains);
        let counts = counts.filter(|validity| renewed_from(*validity) > now);
        let counts = counts.ok_or_else(|| AcmeError::Refused(DUE_AT_ONCE.to_owned()))?;
        self.cache.store(&certificate).map_err(unwritable)?;
        let renewal = self.certificates.reload(now);
        let (domains, ends) = (self.domains.join(", "), format_time(counts.not_after));
        tracing::info!(
            changed = renewal.changed,
            "{} issued a certificate for {domains}, valid until {ends}",
            self.directory
        );
        Ok(())
    }

    fn report(&self, error: &AcmeError, counts: Option<ValidityPeriod>, again: Duration) {
        let meanwhile = match counts.filter(|validity| validity.not_after > SystemClock.now()) {
            Some(validity) => {
                format!(
                    "the previous certificate stays active and is valid until {}",
                    format_time(validity.not_after)
                )
            }
            None => "TLS handshakes without another certificate are refused".to_owned(),
        };
        // The text quotes what the CA found at a domain, which others may control.
        let error = escape_line(&error.to_string(), LONGEST_REASON);
        let problem = format!("{} issued no certificate: {error}; {meanwhile}", self.directory);
        tracing::warn!("{problem}; retrying in {again:?}");
        (self.report)(Some(problem));
    }
}

/// When a third of the lifetime is left, as CAs recommend.
fn renewed_from(validity: ValidityPeriod) -> Timestamp {
    let lasts = validity.not_after.since(validity.not_before);
    validity.not_before.saturating_add(lasts * 2 / 3)
}

async fn wait(span: Duration) {
    let _ = tokio::time::timeout(span, pending::<()>()).await;
}
