//! Certificates without hands: a CA is asked for them by ACME (RFC 8555), and looks for its challenge on the gateway's
//! own TLS port (TLS-ALPN-01, RFC 8737), so that no other port is opened.
//!
//! What the CA gives is a file like any other: the gateway's certificates follow it, and a restart begins with it. As
//! long as there is one that counts, a CA that is away costs nothing but a line in the log and in `/readyz`.

mod cache;
mod http;
mod order;
pub mod settings;
#[cfg(test)]
mod tests;

use crate::acme::settings::Acme;
use crate::harmless::harmless;
use crate::{Certificates, Validity, at};
use cache::Cache;
use hivemind_core::{Clock, SystemClock, Timestamp};
use order::{AcmeError, Orders};
use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// A wall clock may be set: how far the renewal is, is looked at that often.
const LOOKS_EVERY: Duration = Duration::from_secs(3_600);
/// How long all of an order may take.
const ORDERED_WITHIN: Duration = Duration::from_secs(180);
/// Between two tries while a CA does not answer, doubled from the first to the last.
const AWAY: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(600)];
/// Between two tries after a CA has said no. It counts them, and blocks whoever fails five times in an hour.
const REFUSED: [Duration; 2] = [Duration::from_secs(900), Duration::from_secs(4 * 3_600)];

/// As much of what a CA says as is told.
const LONGEST_REASON: usize = 500;

const DUE_AT_ONCE: &str = "the certificate that it gave is not for all names, or has to be renewed at once; look at this \
                           machine's clock";

/// The file that the certificate for these settings is kept in, with its key.
pub fn file(acme: &Acme) -> PathBuf {
    Cache::of(acme).certificate()
}

/// Where it reports why a CA gives no certificate; none: it gave one.
pub type Report = Box<dyn Fn(Option<String>) + Send + Sync>;

/// Keeps a certificate for the domains of the settings, for ever.
pub struct Renewal {
    orders: Orders,
    cache: Cache,
    certificates: Arc<Certificates>,
    report: Report,
    directory: String,
    domains: Vec<String>,
}

impl Renewal {
    /// Sees that the folder is there, and that nobody else looks into it.
    pub fn new(acme: &Acme, certificates: Arc<Certificates>, report: Report) -> anyhow::Result<Self> {
        let cache = Cache::of(acme);
        cache.open()?;
        let orders = Orders::new(acme, Arc::clone(&certificates))?;
        let (directory, domains) = (acme.directory.clone(), acme.domains.clone());
        Ok(Self { orders, cache, certificates, report, directory, domains })
    }

    /// Goes on whatever an answer does to it.
    pub async fn run(self: Arc<Self>) {
        // Who is dropped ends what it has begun.
        let mut renewing = JoinSet::new();
        renewing.spawn(Arc::clone(&self).renew());
        while let Some(Err(error)) = renewing.join_next().await {
            let told = format!("renewal has stopped: {error}; it begins again in {:?}", REFUSED[0]);
            tracing::error!("{told}");
            (self.report)(Some(told));
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
                    "there is no certificate for {domains} yet: {directory} is asked for one, and TLS handshakes \
                                that have no other are refused until then"
                );
            }
            let Err(error) = self.order().await else { continue };
            let [first, last] = if error.is_refusal() { REFUSED } else { AWAY };
            let again = first.saturating_mul(1 << tries.min(16)).min(last);
            tries += 1;
            self.tell(&error, counts, again);
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
        // Looked at before it takes the place of the one that serves; one that is due as soon as it is there would be
        // asked for again without a pause.
        let counts = Cache::validity_of(&certificate, &self.domains);
        let counts = counts.filter(|validity| renewed_from(*validity) > now);
        let counts = counts.ok_or_else(|| AcmeError::Refused(DUE_AT_ONCE.to_owned()))?;
        self.cache.store(&certificate).map_err(unwritable)?;
        let renewal = self.certificates.reload(now);
        let (domains, ends) = (self.domains.join(", "), at(counts.not_after));
        tracing::info!(
            changed = renewal.changed,
            "{} has given a certificate for {domains}, which ends {ends}",
            self.directory
        );
        Ok(())
    }

    fn tell(&self, error: &AcmeError, counts: Option<Validity>, again: Duration) {
        let meanwhile = match counts.filter(|validity| validity.not_after > SystemClock.now()) {
            Some(validity) => {
                format!("the certificate from before serves on, and ends {}", at(validity.not_after))
            }
            None => "there is none meanwhile, and handshakes that have no other are refused".to_owned(),
        };
        // It quotes what was found at a name, which others may have put there.
        let error = harmless(&error.to_string(), LONGEST_REASON);
        let told = format!("{} gives no certificate: {error}; {meanwhile}", self.directory);
        tracing::warn!("{told}; it is asked again in {again:?}");
        (self.report)(Some(told));
    }
}

/// With a third of its time left, as CAs ask for.
fn renewed_from(validity: Validity) -> Timestamp {
    let lasts = validity.not_after.since(validity.not_before);
    validity.not_before.saturating_add(lasts * 2 / 3)
}

async fn wait(span: Duration) {
    let _ = tokio::time::timeout(span, pending::<()>()).await;
}
