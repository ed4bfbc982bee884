//! Health and readiness of the service. Each component has a state and a reason. A failed component makes the service
//! not ready; a degraded one does not, because other nodes would have the same problem.

mod clock;
mod component;
mod files;

pub use clock::watch as watch_clock;
pub use component::Component;
#[cfg(test)]
use component::ComponentState;
pub use files::Files;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Health of the service and its components.
#[derive(Debug, Default)]
pub struct Health {
    has_rules: AtomicBool,
    stopping: AtomicBool,
    /// Whether this node is not a member of the mesh yet.
    awaits_mesh: AtomicBool,
    ready: watch::Sender<bool>,
    problems: Mutex<ComponentProblems>,
}

/// The optional components that are configured.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConfiguredComponents {
    pub mesh: bool,
    pub certificates: bool,
    pub keys: bool,
}

/// The problems of each component.
#[derive(Debug, Default)]
struct ComponentProblems {
    parts: ConfiguredComponents,
    rules: Files,
    configuration: Files,
    /// Configuration keys whose changes need a restart.
    restart: Vec<String>,
    /// Why the shared store is unavailable.
    store: Option<String>,
    mesh: Option<String>,
    /// Steps of the wall clock, and its offset to peers.
    clock: [Option<String>; 2],
    /// Certificates that could not be loaded, are expired, expire soon, or are not valid yet.
    certificates: Vec<String>,
    /// Problem of the mesh certificate.
    mesh_certificate: Option<String>,
    /// Why ACME could not obtain a certificate.
    acme: Option<String>,
    /// Key and token files that could not be loaded, or contain no keys.
    keys: Vec<String>,
}

const STOPPING: &str = "stopping: no new connections are accepted";
const NO_RULES: &str = "no rules loaded yet: every request returns an error";
const NO_MESH: &str =
    "not a member of the mesh yet: no peer has accepted this node; check `mesh.bootstrap_peers`";
const OLD_RULES: &str = "the rules on disk are invalid; the previous rules stay active";
const OLD_CONFIGURATION: &str = "the configuration on disk is invalid; the previous one stays active";
const RESTART: &str = "changed on disk, but needs a restart to take effect";

impl Health {
    fn problems(&self) -> MutexGuard<'_, ComponentProblems> {
        self.problems.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the configured components. Called once, before the first request.
    pub fn set_components(&self, parts: ConfiguredComponents) {
        self.problems().parts = parts;
    }

    pub fn rules_loaded(&self) {
        self.has_rules.store(true, Ordering::Relaxed);
        self.ready.send_replace(self.is_ready());
        self.problems().rules.loaded();
    }

    pub fn rules_refused(&self, why: String) {
        self.problems().rules.refused(why);
    }

    /// Records a loaded configuration, with the keys whose changes need a restart.
    pub fn configuration_loaded(&self, needing_restart: Vec<String>) {
        let mut problems = self.problems();
        problems.configuration.loaded();
        problems.restart = needing_restart;
    }

    pub fn configuration_refused(&self, why: String) {
        self.problems().configuration.refused(why);
    }

    /// The load state of the rule files and of the configuration file.
    pub fn files(&self) -> [Files; 2] {
        let problems = self.problems();
        [problems.rules.clone(), problems.configuration.clone()]
    }

    /// The configuration keys whose changes need a restart.
    pub fn needing_restart(&self) -> Vec<String> {
        self.problems().restart.clone()
    }

    /// Sets the problems of certificates, one line each.
    pub fn set_certificate_problems(&self, lines: Vec<String>) {
        self.problems().certificates = lines;
    }

    /// Sets the problems of key and token files, one line each.
    pub fn set_key_problems(&self, lines: Vec<String>) {
        self.problems().keys = lines;
    }

    /// Sets the problem of the shared store. The service stays ready: it decides by `on_error`, and
    /// other nodes would do the same.
    pub(crate) fn set_store_problem(&self, problem: Option<String>) {
        self.problems().store = problem;
    }

    /// Sets whether this node is a member or an observer of the mesh.
    pub(crate) fn set_mesh_membership(&self, ready: bool) {
        if self.awaits_mesh.swap(!ready, Ordering::Relaxed) == ready {
            self.ready.send_replace(self.is_ready());
        }
    }

    /// Sets the problem of the mesh, while this node is a member.
    pub(crate) fn set_mesh_problem(&self, problem: Option<String>) {
        self.problems().mesh = problem;
    }

    pub(crate) fn set_mesh_certificate_problem(&self, problem: Option<String>) {
        self.problems().mesh_certificate = problem;
    }

    /// Sets the problem of ACME.
    pub fn set_acme_problem(&self, problem: Option<String>) {
        self.problems().acme = problem;
    }

    /// Sets the last step of the wall clock.
    pub(crate) fn set_clock_step(&self, problem: Option<String>) {
        self.problems().clock[0] = problem;
    }

    /// Sets the problem of this clock's offset to peers.
    pub(crate) fn set_clock_offset_problem(&self, problem: Option<String>) {
        self.problems().clock[1] = problem;
    }

    pub fn stopping(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.ready.send_replace(false);
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Watches readiness.
    pub fn readiness(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    pub fn is_ready(&self) -> bool {
        let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        is(&self.has_rules) && !is(&self.stopping) && !is(&self.awaits_mesh)
    }

    /// The state in one phrase, for unauthenticated clients.
    pub fn word(&self) -> &'static str {
        if self.is_ready() { "ready" } else { "not ready" }
    }

    fn flags(&self) -> [bool; 3] {
        let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        [is(&self.stopping), !is(&self.has_rules), is(&self.awaits_mesh)]
    }

    /// All problems as text, one line each.
    pub fn details(&self) -> String {
        let mut lines = vec![self.word().to_owned()];
        let of_flags = self.flags().into_iter().zip([STOPPING, NO_RULES, NO_MESH]);
        lines.extend(of_flags.filter(|(is, _)| *is).map(|(_, line)| line.to_owned()));
        let problems = self.problems();
        lines.extend(problems.store.iter().chain(&problems.mesh).map(|why| format!("degraded: {why}")));
        lines.extend(problems.clock.iter().flatten().map(|why| format!("clock: {why}")));
        lines.extend(problems.rules.error().map(|error| format!("{OLD_RULES}:\n{error}")));
        if !problems.restart.is_empty() {
            lines.push(format!("{RESTART}: {}", problems.restart.join(", ")));
        }
        lines.extend(problems.configuration.error().map(|error| format!("{OLD_CONFIGURATION}:\n{error}")));
        let certificates =
            problems.certificates.iter().chain(&problems.acme).chain(&problems.mesh_certificate);
        lines.extend(certificates.map(|line| format!("certificates: {line}")));
        lines.extend(problems.keys.iter().map(|line| format!("keys: {line}")));
        lines.join("\n") + "\n"
    }

    /// All components with their states and reasons.
    pub fn components(&self) -> Vec<Component> {
        let [stopping, lacks_rules, awaits_mesh] = self.flags();
        let problems = self.problems();
        let failing = |is: bool, reason: &str| is.then(|| reason.to_owned());
        let refused = |text: &str, files: &Files| files.error().map(|error| format!("{text}:\n{error}"));
        let restart =
            (!problems.restart.is_empty()).then(|| format!("{RESTART}: {}", problems.restart.join(", ")));
        let certificates =
            problems.certificates.iter().chain(&problems.acme).chain(&problems.mesh_certificate).cloned();
        let ConfiguredComponents { mesh, certificates: has_certificates, keys } = problems.parts;
        vec![
            Component::new("serving", failing(stopping, STOPPING), []),
            Component::new("rules", failing(lacks_rules, NO_RULES), refused(OLD_RULES, &problems.rules)),
            Component::new(
                "configuration",
                None,
                refused(OLD_CONFIGURATION, &problems.configuration).into_iter().chain(restart),
            ),
            Component::new("store", None, problems.store.clone()),
            Component::new("mesh", failing(awaits_mesh, NO_MESH), problems.mesh.clone()).off_unless(mesh),
            Component::new("clock", None, problems.clock.iter().flatten().cloned()),
            Component::new("certificates", None, certificates).off_unless(has_certificates),
            Component::new("keys", None, problems.keys.iter().cloned()).off_unless(keys),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states(health: &Health) -> Vec<(&'static str, ComponentState)> {
        health.components().iter().map(|component| (component.name, component.state)).collect()
    }

    #[test]
    fn failed_component_prevents_readiness_and_degraded_does_not() {
        let health = Health::default();
        health.set_components(ConfiguredComponents { mesh: true, ..ConfiguredComponents::default() });
        assert!(!health.is_ready() && states(&health).contains(&("rules", ComponentState::Failed)));
        health.rules_loaded();
        health.rules_refused("rules.yaml:1".to_owned());
        health.set_store_problem(Some("away".to_owned()));
        health.set_clock_step(Some("set back".to_owned()));
        health.set_mesh_problem(Some("a peer is silent".to_owned()));
        assert!(health.is_ready());
        for part in ["rules", "store", "clock", "mesh"] {
            assert!(states(&health).contains(&(part, ComponentState::Degraded)), "{part}");
        }
        for part in ["keys", "certificates"] {
            assert!(states(&health).contains(&(part, ComponentState::Off)), "{part}");
        }
        health.set_mesh_membership(false);
        assert!(!health.is_ready() && states(&health).contains(&("mesh", ComponentState::Failed)));
    }

    #[test]
    fn each_detail_line_is_the_reason_of_a_component() {
        let health = Health::default();
        health.set_components(ConfiguredComponents { mesh: true, certificates: true, keys: true });
        health.rules_refused("r".to_owned());
        health.configuration_loaded(vec!["server.host".to_owned()]);
        health.set_certificate_problems(vec!["c".to_owned()]);
        health.set_acme_problem(Some("a".to_owned()));
        health.set_mesh_certificate_problem(Some("m".to_owned()));
        health.set_key_problems(vec!["k".to_owned()]);
        health.set_clock_offset_problem(Some("p".to_owned()));
        health.set_store_problem(Some("s".to_owned()));
        health.stopping();
        let reasons: String = health.components().iter().map(|of| of.reason() + "\n").collect();
        for line in health.details().lines().skip(1) {
            let bare = ["degraded: ", "clock: ", "certificates: ", "keys: "]
                .iter()
                .find_map(|prefix| line.strip_prefix(prefix))
                .unwrap_or(line);
            assert!(reasons.contains(bare), "{bare} is not among {reasons}");
        }
    }
}
