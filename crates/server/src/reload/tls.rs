//! Reload of certificates, and of the CAs for upstreams and callers.

use super::FollowedFiles;
use hivemind_core::{Clock, SystemClock, Timestamp};
use hivemind_engine::health::Health;
use hivemind_engine::service::Service;
use hivemind_tls::{PortTls, ServerCertificates, TlsError, TrustStores, Warning};
use std::collections::HashMap;
use std::fmt;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Interval at which a persisting warning is logged again, so that each day's log contains it.
const REMINDED_AFTER: Duration = Duration::from_secs(24 * 3_600);

/// All TLS files.
pub(crate) struct ServerTlsFiles {
    /// The server certificates of the gateway and of all ports.
    certificates: Vec<Arc<ServerCertificates>>,
    ports: Vec<Arc<PortTls>>,
    trust: Arc<TrustStores>,
    service: Arc<Service>,
    health: Arc<Health>,
    /// Problems of files that could not be loaded.
    trouble: Vec<String>,
    reminders: Reminders,
}

/// Invalid files, one line each. Their previous contents stay active; other files are reloaded.
#[derive(Debug)]
pub(crate) struct InvalidTlsFiles(Vec<TlsError>);

impl fmt::Display for InvalidTlsFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl ServerTlsFiles {
    pub(crate) fn new(
        of_gateway: Option<Arc<ServerCertificates>>,
        ports: Vec<Arc<PortTls>>,
        trust: Arc<TrustStores>,
        service: Arc<Service>,
        health: Arc<Health>,
    ) -> Self {
        let of_ports = ports.iter().map(|port| Arc::clone(port.certificates()));
        let certificates = of_gateway.into_iter().chain(of_ports).collect();
        let (trouble, reminders) = (Vec::new(), Reminders::default());
        let files = Self { certificates, ports, trust, service, health, trouble, reminders };
        // Metrics and health must be set before the first request; the first check runs later.
        files.update_health(SystemClock.now());
        files
    }

    fn warnings(&self, now: Timestamp) -> Vec<Warning> {
        self.certificates.iter().flat_map(|certificates| certificates.warnings(now)).collect()
    }

    /// Fingerprint of the current files.
    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.certificates.iter().for_each(|certificates| certificates.fingerprint(&mut hasher));
        self.ports.iter().for_each(|port| port.fingerprint(&mut hasher));
        self.trust.fingerprint(&mut hasher);
        hasher.finish()
    }

    /// Updates metrics and health.
    fn update_health(&self, now: Timestamp) {
        let mut lines = self.trouble.clone();
        let stats = self.service.stats();
        stats.certificate_errors.store(lines.len() as u64, Ordering::Relaxed);
        let ends = self.certificates.iter().filter_map(|certificates| certificates.expires_at());
        if let Some(first_end) = ends.min() {
            stats.certificate_expiry.store(first_end.as_nanos() / 1_000_000_000, Ordering::Relaxed);
            let of_time = |warning: &Warning| !matches!(warning, Warning::Exposed { .. });
            lines.extend(self.warnings(now).iter().filter(|it| of_time(it)).map(ToString::to_string));
        }
        self.health.set_certificate_problems(lines);
    }
}

impl FollowedFiles for ServerTlsFiles {
    type Texts = ();
    type Trouble = InvalidTlsFiles;

    fn paths(&self) -> Vec<PathBuf> {
        let shown = self.certificates.iter().flat_map(|certificates| certificates.paths());
        let of_ports = self.ports.iter().flat_map(|port| port.paths());
        shown.map(Path::to_owned).chain(of_ports).chain(self.trust.paths()).collect()
    }

    /// Loading reads the files again. A file that changes in between is loaded in its new state, and
    /// again at the next check.
    fn read(&self) -> Result<(u64, ()), InvalidTlsFiles> {
        Ok((self.fingerprint(), ()))
    }

    fn load(&mut self, (): ()) -> Result<Vec<String>, InvalidTlsFiles> {
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
            tracing::info!(changed, "new certificates are active");
        }
        if changed_cas > 0 {
            tracing::info!(changed = changed_cas, "new CAs are active");
        }
        self.trouble.clear();
        self.passes(now);
        if refused.is_empty() {
            return Ok(vec![format!("changed: {changed} certificates, {changed_cas} CA files")]);
        }
        Err(InvalidTlsFiles(refused))
    }

    fn refuse(&mut self, unusable: &InvalidTlsFiles) {
        self.trouble = unusable.0.iter().map(ToString::to_string).collect();
        self.update_health(SystemClock.now());
        for error in &unusable.0 {
            tracing::error!("invalid TLS file; its previous contents, if any, stay active: {error}");
        }
    }

    fn passes(&mut self, now: Timestamp) {
        let warnings = self.warnings(now);
        for warning in self.reminders.due(warnings, now) {
            tracing::warn!("{warning}");
        }
        self.update_health(now);
    }
}

/// When each warning was last logged.
#[derive(Default)]
struct Reminders(HashMap<Warning, Timestamp>);

impl Reminders {
    /// The warnings that are new, or persist and were last logged a day ago.
    fn due(&mut self, warnings: Vec<Warning>, now: Timestamp) -> Vec<Warning> {
        self.0.retain(|warning, _| warnings.contains(warning));
        let is_due = |last: Option<&Timestamp>| last.is_none_or(|last| now.since(*last) >= REMINDED_AFTER);
        let due: Vec<Warning> = warnings.into_iter().filter(|it| is_due(self.0.get(it))).collect();
        self.0.extend(due.iter().map(|warning| (warning.clone(), now)));
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Seen failing on: warnings logged only when they are new, and warnings logged at each check.
    #[test]
    fn expiry_warning_is_logged_when_new_and_then_daily() {
        let expires = |cert: &str| Warning::Expires { cert: cert.into(), not_after: Timestamp::MAX };
        let mut reminders = Reminders::default();
        let hour = |hour: u64| Timestamp::from_millis(hour * 3_600_000);
        for (at, holding, logged) in [
            (0, &["a"][..], &["a"][..]),
            (1, &["a"], &[]),
            (2, &["a", "b"], &["b"]),
            (23, &["a", "b"], &[]),
            (24, &["a", "b"], &["a"]),
            (26, &["a", "b"], &["b"]),
            (48, &["a", "b"], &["a"]),
            // A warning that ended and returned is new.
            (49, &["b"], &[]),
            (50, &["a", "b"], &["a", "b"]),
        ] {
            let holding = holding.iter().map(|cert| expires(cert)).collect();
            let logged: Vec<Warning> = logged.iter().map(|cert| expires(cert)).collect();
            assert_eq!(reminders.due(holding, hour(at)), logged, "at {at} h");
        }
    }
}
