//! Whether the service can be asked, and what is the matter if not.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::sync::watch;

/// What is known about the service's state.
#[derive(Debug, Default)]
pub(crate) struct Health {
    has_rules: AtomicBool,
    stopping: AtomicBool,
    /// Whether the mesh has no place for this node yet.
    awaits_mesh: AtomicBool,
    ready: watch::Sender<bool>,
    /// Why the rules on disk are not the rules in force.
    last_load_error: Mutex<Option<String>>,
    /// Why the configuration on disk is not the one in force.
    configuration_error: Mutex<Option<String>>,
    /// Keys of it that say something else than is in force, until a restart.
    restart: Mutex<Vec<String>>,
    /// Certificates that are not in force, or that clients do not accept any more, soon or yet.
    certificates: Mutex<Vec<String>>,
    /// What is the matter with the certificate that peers see.
    mesh_certificate: Mutex<Option<String>>,
    /// Files of keys and tokens that are not in force, or let nobody in.
    keys: Mutex<Vec<String>>,
    /// Why limits hold for this node alone, or not at all, though they are to be shared.
    degraded: Mutex<Option<String>>,
}

impl Health {
    pub(crate) fn rules_loaded(&self) {
        self.has_rules.store(true, Ordering::Relaxed);
        self.ready.send_replace(self.is_ready());
        *self.last_load_error.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(crate) fn rules_refused(&self, why: String) {
        *self.last_load_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    /// With the keys that cannot be followed.
    pub(crate) fn configuration_loaded(&self, needing_restart: Vec<String>) {
        *self.configuration_error.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *self.restart.lock().unwrap_or_else(PoisonError::into_inner) = needing_restart;
    }

    pub(crate) fn configuration_refused(&self, why: String) {
        *self.configuration_error.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    /// With a line for each certificate that something is the matter with.
    pub(crate) fn certificates_are(&self, lines: Vec<String>) {
        *self.certificates.lock().unwrap_or_else(PoisonError::into_inner) = lines;
    }

    /// With a line for each file of keys or tokens that something is the matter with.
    pub(crate) fn keys_are(&self, lines: Vec<String>) {
        *self.keys.lock().unwrap_or_else(PoisonError::into_inner) = lines;
    }

    /// The store that limits are shared in cannot be reached; it is ready all the same, since
    /// it answers every request by its policy, and so would every other node.
    pub(crate) fn degraded(&self, why: String) {
        *self.degraded.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    pub(crate) fn whole(&self) {
        *self.degraded.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether the mesh has a place for this node: it is in a view, or a guest of one.
    pub(crate) fn mesh_is(&self, ready: bool) {
        if self.awaits_mesh.swap(!ready, Ordering::Relaxed) == ready {
            self.ready.send_replace(self.is_ready());
        }
    }

    pub(crate) fn mesh_certificate_is(&self, matter: Option<String>) {
        *self.mesh_certificate.lock().unwrap_or_else(PoisonError::into_inner) = matter;
    }

    pub(crate) fn stopping(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.ready.send_replace(false);
    }

    /// Tells when that changes.
    pub(crate) fn readiness(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    pub(crate) fn is_ready(&self) -> bool {
        let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        is(&self.has_rules) && !is(&self.stopping) && !is(&self.awaits_mesh)
    }

    /// What anybody may know.
    pub(crate) fn word(&self) -> &'static str {
        if self.is_ready() { "ready" } else { "not ready" }
    }

    /// A line for each thing that an operator should know.
    pub(crate) fn details(&self) -> String {
        let mut lines = vec![self.word().to_owned()];
        if self.stopping.load(Ordering::Relaxed) {
            lines.push("stopping: no new connections are taken".into());
        }
        if !self.has_rules.load(Ordering::Relaxed) {
            lines.push("no rules have been loaded yet: every request is answered with an error".into());
        }
        if self.awaits_mesh.load(Ordering::Relaxed) {
            lines
                .push("not in the mesh yet: no peer has let this node in; see `mesh.bootstrap_peers`".into());
        }
        let degraded = self.degraded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = &*degraded {
            lines.push(format!("degraded: {why}"));
        }
        let error = self.last_load_error.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = &*error {
            lines.push(format!("the rules on disk are refused, those from before are in force:\n{error}"));
        }
        let restart = self.restart.lock().unwrap_or_else(PoisonError::into_inner);
        if !restart.is_empty() {
            lines.push(format!("changed on disk, and needs a restart: {}", restart.join(", ")));
        }
        let error = self.configuration_error.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = &*error {
            let text = "the configuration on disk is refused, that from before is in force";
            lines.push(format!("{text}:\n{error}"));
        }
        let certificates = self.certificates.lock().unwrap_or_else(PoisonError::into_inner);
        let mesh_certificate = self.mesh_certificate.lock().unwrap_or_else(PoisonError::into_inner);
        let all = certificates.iter().chain(&*mesh_certificate);
        lines.extend(all.map(|line| format!("certificates: {line}")));
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        lines.extend(keys.iter().map(|line| format!("keys: {line}")));
        lines.join("\n") + "\n"
    }
}
