//! Reload of the certificate and the CA from their files, and warnings before they expire.

use super::context::{NodeContext, every};
use super::identity::{Certificates, NodeIdentityError};
use hivemind_core::Timestamp;
use std::sync::Arc;
use std::time::Duration;

/// Interval of reloads; a rotation becomes active within it.
const RELOAD_INTERVAL: Duration = Duration::from_secs(5);

/// How long a peer whose certificate is no longer trusted has to reconnect with a new one.
const GRACE: Duration = Duration::from_secs(10);

impl NodeContext {
    /// Activates new certificates, closes connections made with untrusted ones, and warns before expiry, until shutdown.
    pub(super) async fn watch_certificates(self: Arc<Self>) {
        let (mut ticks, mut warned, mut failures) = (every(RELOAD_INTERVAL), [None; 2], 0_u32);
        loop {
            ticks.tick().await;
            failures = match self.reload_identity() {
                Ok(_) => 0,
                Err(error) => {
                    // While files are being replaced, one reload may find files that do not match.
                    if failures == 1 {
                        tracing::warn!(%error, "mesh certificates cannot be reloaded; the previous ones stay active");
                    }
                    failures.saturating_add(1)
                }
            };
            for link in self.links.list() {
                if self.clock.now() > link.peer.until {
                    link.distrust();
                }
                if link.distrusted_for().is_some_and(|span| span >= GRACE) {
                    let peer = &link.peer.member.id;
                    tracing::warn!(
                        %peer,
                        "connection closed: the peer's certificate has expired or its CA is no longer trusted; \
                         renew its certificate"
                    );
                    link.close();
                }
            }
            warned = warn_of_expiry(&self.identity.certificates(), self.clock.now(), warned);
        }
    }

    /// Reloads the certificate and the CA. Returns whether either changed. Existing connections stay open; those made
    /// with an expired certificate or with a CA that is no longer trusted are renewed, or closed after a grace period.
    pub(super) fn reload_identity(&self) -> Result<bool, NodeIdentityError> {
        let change = self.identity.reload()?;
        if change.own || change.ca {
            tracing::info!(certificate = change.own, ca = change.ca, "mesh certificates reloaded");
        }
        if change.ca {
            for link in self.links.list() {
                if !self.identity.trusts(&link.peer.chain, link.peer.since) {
                    link.distrust();
                }
            }
        }
        Ok(change.own || change.ca)
    }
}

/// Warns once per day before the certificate and the CA expire. Returns the days left that were reported.
fn warn_of_expiry(certificates: &Certificates, now: Timestamp, warned: [Option<u64>; 2]) -> [Option<u64>; 2] {
    let [own, ca] = days_left(certificates, now);
    if let Some(days_left) = own.filter(|_| own != warned[0]) {
        let remedy = "create a new one with `hivemind certs node`; it is reloaded without a restart";
        tracing::warn!(days_left, remedy, "this node's mesh certificate expires soon");
    }
    if let Some(days_left) = ca.filter(|_| ca != warned[1]) {
        let remedy = "create a new one with `hivemind certs ca`, and add it to every file of `mesh.tls.ca` before any \
                      node uses a certificate of it";
        tracing::warn!(days_left, remedy, "the mesh CA and all its certificates expire soon");
    }
    [own, ca]
}

/// Days until the certificate and the CA expire, if that is to be reported.
fn days_left(certificates: &Certificates, now: Timestamp) -> [Option<u64>; 2] {
    let Certificates { own_until, ca_until, renew_from, renew_ca_from } = *certificates;
    [(renew_from, own_until), (renew_ca_from, ca_until)]
        .map(|(from, until)| (now >= from).then(|| until.since(now).as_secs() / 86_400))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expiry_is_reported_from_the_renewal_time_on() {
        let day = |day: u64| Timestamp::from_millis(day * 86_400_000);
        let (own_until, renew_from) = (day(90), day(76));
        let (ca_until, renew_ca_from) = (day(95), day(81));
        let certificates = Certificates { own_until, ca_until, renew_from, renew_ca_from };
        for (at, own, ca) in [
            (0, None, None),
            (75, None, None),
            (76, Some(14), None),
            (81, Some(9), Some(14)),
            (90, Some(0), Some(5)),
            (99, Some(0), Some(0)),
        ] {
            assert_eq!(days_left(&certificates, day(at)), [own, ca], "on day {at}");
        }
    }
}
