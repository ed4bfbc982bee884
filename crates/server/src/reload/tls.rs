//! Certificates, and the CAs that upstreams and callers are checked with.

use super::Followed;
use crate::health::Health;
use crate::service::Service;
use hivemind_core::{Clock, SystemClock, Timestamp};
use hivemind_tls::{Certificates, PortTls, TlsError, Trust, Warning};
use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a warning holds before it is told again: whoever was away for a day reads the last one.
const REMINDED_AFTER: Duration = Duration::from_secs(24 * 3_600);

/// The files that TLS is spoken with.
pub(crate) struct TlsFiles {
    /// Of the gateway and of all ports.
    certificates: Vec<Arc<Certificates>>,
    ports: Vec<Arc<PortTls>>,
    trust: Arc<Trust>,
    service: Arc<Service>,
    health: Arc<Health>,
    /// What is wrong with files that are not in force.
    trouble: Vec<String>,
    reminders: Reminders,
}

/// Files that cannot be used, a line for each. Each of them changes nothing, and the others are in force.
#[derive(Debug)]
pub(crate) struct Unusable(Vec<TlsError>);

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl TlsFiles {
    pub(crate) fn new(
        of_gateway: Option<Arc<Certificates>>,
        ports: Vec<Arc<PortTls>>,
        trust: Arc<Trust>,
        service: Arc<Service>,
        health: Arc<Health>,
    ) -> Self {
        let of_ports = ports.iter().map(|port| Arc::clone(port.certificates()));
        let certificates = of_gateway.into_iter().chain(of_ports).collect();
        let (trouble, reminders) = (Vec::new(), Reminders::default());
        let files = Self { certificates, ports, trust, service, health, trouble, reminders };
        // What is in force is told before anybody can ask; the first look comes later.
        files.tell(SystemClock.now());
        files
    }

    fn warnings(&self, now: Timestamp) -> Vec<Warning> {
        self.certificates.iter().flat_map(|certificates| certificates.warnings(now)).collect()
    }

    /// What the files are at the moment.
    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.certificates.iter().for_each(|certificates| certificates.fingerprint(&mut hasher));
        self.ports.iter().for_each(|port| port.fingerprint(&mut hasher));
        self.trust.fingerprint(&mut hasher);
        hasher.finish()
    }

    /// Says everywhere how it is now.
    fn tell(&self, now: Timestamp) {
        let mut lines = self.trouble.clone();
        let stats = self.service.stats();
        stats.certificate_errors.store(lines.len() as u64, Ordering::Relaxed);
        let ends = self.certificates.iter().filter_map(|certificates| certificates.expires_at());
        if let Some(first_end) = ends.min() {
            stats.certificate_expiry.store(first_end.as_nanos() / 1_000_000_000, Ordering::Relaxed);
            let of_time = |warning: &Warning| !matches!(warning, Warning::Exposed { .. });
            lines.extend(self.warnings(now).iter().filter(|it| of_time(it)).map(ToString::to_string));
        }
        self.health.certificates_are(lines);
    }
}

impl Followed for TlsFiles {
    type Texts = ();
    type Trouble = Unusable;

    fn paths(&self) -> Vec<PathBuf> {
        let shown = self.certificates.iter().flat_map(|certificates| certificates.paths());
        let of_ports = self.ports.iter().flat_map(|port| port.paths());
        shown.map(Path::to_owned).chain(of_ports).chain(self.trust.paths()).collect()
    }

    /// The files are read again when they are loaded. One that changes in between is loaded as it is then, and
    /// once more at the next look.
    fn read(&self) -> Result<(u64, ()), Unusable> {
        Ok((self.fingerprint(), ()))
    }

    fn load(&mut self, (): ()) -> Result<Vec<String>, Unusable> {
        let now = SystemClock.now();
        let (mut changed, mut changed_cas, mut refused) = (0, 0, Vec::new());
        for renewal in self.certificates.iter().map(|certificates| certificates.reload(now)) {
            changed += renewal.changed;
            refused.extend(renewal.refused);
        }
        let of_callers = self.ports.iter().map(|port| port.reload_ca());
        for renewal in of_callers.chain([self.trust.reload()]) {
            changed_cas += renewal.changed;
            refused.extend(renewal.refused);
        }
        if changed > 0 {
            tracing::info!(changed, "new certificates are in force");
        }
        if changed_cas > 0 {
            tracing::info!(changed = changed_cas, "new CAs are in force");
        }
        self.trouble.clear();
        self.passes(now);
        if refused.is_empty() {
            return Ok(vec![format!("changed: {changed} certificates, {changed_cas} CA files")]);
        }
        Err(Unusable(refused))
    }

    fn refuse(&mut self, unusable: &Unusable) {
        self.trouble = unusable.0.iter().map(ToString::to_string).collect();
        self.tell(SystemClock.now());
        for error in &unusable.0 {
            tracing::error!("what was in force before, if anything was, is kept: {error}");
        }
    }

    fn passes(&mut self, now: Timestamp) {
        let warnings = self.warnings(now);
        for warning in self.reminders.due(warnings, now) {
            tracing::warn!("{warning}");
        }
        self.tell(now);
    }
}

/// When each warning was told.
#[derive(Default)]
struct Reminders(HashMap<Warning, Timestamp>);

impl Reminders {
    /// Those that are new, or were told a day ago and still hold.
    fn due(&mut self, warnings: Vec<Warning>, now: Timestamp) -> Vec<Warning> {
        self.0.retain(|warning, _| warnings.contains(warning));
        let is_due = |told: Option<&Timestamp>| told.is_none_or(|told| now.since(*told) >= REMINDED_AFTER);
        let due: Vec<Warning> = warnings.into_iter().filter(|it| is_due(self.0.get(it))).collect();
        self.0.extend(due.iter().map(|warning| (warning.clone(), now)));
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Seen failing on: warnings told only when they are new; and told at every look.
    #[test]
    fn what_ends_soon_is_told_when_that_begins_and_then_every_day() {
        let expires = |cert: &str| Warning::Expires { cert: cert.into(), not_after: Timestamp::MAX };
        let mut reminders = Reminders::default();
        let hour = |hour: u64| Timestamp::from_millis(hour * 3_600_000);
        for (at, holding, told) in [
            (0, &["a"][..], &["a"][..]),
            (1, &["a"], &[]),
            (2, &["a", "b"], &["b"]),
            (23, &["a", "b"], &[]),
            (24, &["a", "b"], &["a"]),
            (26, &["a", "b"], &["b"]),
            (48, &["a", "b"], &["a"]),
            // Renewed, and later in need of it again: that is news.
            (49, &["b"], &[]),
            (50, &["a", "b"], &["a", "b"]),
        ] {
            let holding = holding.iter().map(|cert| expires(cert)).collect();
            let told: Vec<Warning> = told.iter().map(|cert| expires(cert)).collect();
            assert_eq!(reminders.due(holding, hour(at)), told, "at {at} h");
        }
    }
}
