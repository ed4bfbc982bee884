//! The configuration: what of it can change while it runs, and what needs a restart.

use super::Followed;
use crate::config::environment;
use crate::config::gateway::Routing;
use crate::config::{Loaded, Settings, SettingsText};
use crate::front::gateway::GatewayError;
use crate::health::Health;
use crate::service::Service;
use hivemind_config::leaves::Leaves;
use hivemind_config::problem::Problems;
use hivemind_telemetry::logging::RunningLog;
use hivemind_telemetry::settings::log::{DecisionLogSettings, Log, LogLevels};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Where settings come from: a file, the environment, and what the command line says over both.
pub(crate) struct Configuration {
    pub(crate) path: Option<PathBuf>,
    /// By the names that the environment would have for them; they win over it.
    pub(crate) over: Vec<(String, String)>,
}

impl Configuration {
    /// Reads all of it, or says everything that is wrong.
    pub(crate) fn load(&self) -> Result<Loaded, Problems> {
        self.read()?.load(self.variables())
    }

    fn read(&self) -> Result<SettingsText, Problems> {
        self.path.as_deref().map_or_else(|| Ok(SettingsText::none()), SettingsText::read)
    }

    /// Whether this key is written anywhere. What cannot be read says nothing.
    pub(crate) fn says(&self, key: &str) -> bool {
        self.read().is_ok_and(|text| text.leaves(self.variables()).has(key))
    }

    fn variables(&self) -> impl Iterator<Item = (String, String)> {
        let is_free = |name: &String| !self.over.iter().any(|(over, _)| over == name);
        environment().filter(move |(name, _)| is_free(name)).chain(self.over.iter().cloned())
    }
}

/// Puts another routing in force.
pub(crate) type PutInForce = Box<dyn Fn(&Routing) -> Result<(), GatewayError> + Send>;

/// The file of a configuration that is in force.
pub(crate) struct ConfigurationFile {
    pub(crate) configuration: Configuration,
    /// As it was when the process started, and so as it is where that needs a restart.
    pub(crate) started: Loaded,
    /// What was written when it was last put in force.
    pub(crate) seen: Leaves,
    pub(crate) log: Arc<RunningLog>,
    /// None if no gateway runs.
    pub(crate) gateway: Option<PutInForce>,
    pub(crate) service: Arc<Service>,
    pub(crate) health: Arc<Health>,
}

impl ConfigurationFile {
    /// The keys that say something else than when the process started, and cannot be followed.
    fn needing_restart(&self, loaded: &Loaded) -> Vec<String> {
        if without_followed(&loaded.settings) == without_followed(&self.started.settings) {
            return Vec::new();
        }
        let followed = [&Routing::KEYS[..], &Log::RELOADABLE[..]].concat();
        let mut keys = self.started.leaves.changed(&loaded.leaves, &followed);
        if self.started.settings.gateway.is_some() != loaded.settings.gateway.is_some() {
            keys.push("gateway".to_owned());
        }
        keys
    }
}

impl Followed for ConfigurationFile {
    type Texts = SettingsText;
    type Trouble = Problems;

    fn paths(&self) -> Vec<PathBuf> {
        self.configuration.path.iter().cloned().collect()
    }

    fn read(&self) -> Result<(u64, SettingsText), Problems> {
        self.configuration.read().map(|text| (text.fingerprint(), text))
    }

    fn load(&mut self, text: SettingsText) -> Result<Vec<String>, Problems> {
        let loaded = text.load(self.configuration.variables())?;
        if let (Some(put_in_force), Some(gateway)) = (&self.gateway, &loaded.settings.gateway) {
            put_in_force(&gateway.routing).map_err(|error| text.problem(&error.to_string()))?;
        }
        self.log.reload(&loaded.settings.observability.log);
        let mut notes: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
        for warning in &notes {
            tracing::warn!("{warning}");
        }
        let keys = self.needing_restart(&loaded);
        if !keys.is_empty() {
            let keys = keys.join(", ");
            tracing::warn!(
                "changed, but needs a restart, and until then the value from before is in force: {keys}"
            );
            notes.push(format!("needs a restart: {keys}"));
        }
        self.health.configuration_loaded(keys);
        self.service.stats().config_load_success.fetch_add(1, Ordering::Relaxed);
        let path = self.configuration.path.as_deref().unwrap_or(Path::new(""));
        // The keys alone: a value may be a secret.
        let changed = self.seen.changed(&loaded.leaves, &[]).join(", ");
        tracing::info!(path = %path.display(), changed, "configuration loaded");
        self.seen = loaded.leaves;
        Ok(notes)
    }

    fn refuse(&mut self, problems: &Problems) {
        self.service.stats().config_load_error.fetch_add(1, Ordering::Relaxed);
        self.health.configuration_refused(problems.to_string());
        tracing::error!("the configuration is refused, that from before stays in force:\n{problems}");
    }
}

/// What cannot be followed.
fn without_followed(settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    if let Some(gateway) = &mut settings.gateway {
        gateway.routing.services.clear();
        gateway.routing.platform = crate::config::gateway::Platform::default();
    }
    let log = &mut settings.observability.log;
    (log.levels, log.decisions) = (LogLevels::default(), DecisionLogSettings::default());
    settings
}
