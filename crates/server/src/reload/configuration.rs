//! Reload of the configuration: which settings change at runtime, and which need a restart.

use super::FollowedFiles;
use crate::settings::LoadedSettings;
use crate::settings::Settings;
use crate::settings::SettingsText;
use crate::settings::environment;
use hivemind_config::problem::Problems;
use hivemind_config::value_hashes::ValueHashes;
use hivemind_engine::health::Health;
use hivemind_engine::service::Service;
use hivemind_gateway::GatewayError;
use hivemind_gateway::settings::Routing;
use hivemind_telemetry::logging::RunningLog;
use hivemind_telemetry::settings::log::{DecisionLogSettings, LogLevels, LogSettings};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Sources of settings: a file, overridden by the environment, overridden by the command line.
pub(crate) struct Configuration {
    pub(crate) path: Option<PathBuf>,
    /// Settings of the command line, under the names of environment variables; they take precedence.
    pub(crate) over: Vec<(String, String)>,
}

impl Configuration {
    /// Reads and validates all settings, or returns all problems.
    pub(crate) fn load(&self) -> Result<LoadedSettings, Problems> {
        self.read()?.load(self.variables())
    }

    fn read(&self) -> Result<SettingsText, Problems> {
        self.path.as_deref().map_or_else(|| Ok(SettingsText::none()), SettingsText::read)
    }

    /// Whether this key is set anywhere; false if the file cannot be read.
    pub(crate) fn says(&self, key: &str) -> bool {
        self.read().is_ok_and(|text| text.value_hashes(self.variables()).has(key))
    }

    fn variables(&self) -> impl Iterator<Item = (String, String)> {
        let is_free = |name: &String| !self.over.iter().any(|(over, _)| over == name);
        environment().filter(move |(name, _)| is_free(name)).chain(self.over.iter().cloned())
    }
}

/// Activates a routing.
pub(crate) type ApplyRouting = Box<dyn Fn(&Routing) -> Result<(), GatewayError> + Send>;

/// The configuration file and the components that follow it.
pub(crate) struct ConfigurationFile {
    pub(crate) configuration: Configuration,
    /// The configuration at startup; still active for settings that need a restart.
    pub(crate) started: LoadedSettings,
    /// The values at the last successful load.
    pub(crate) seen: ValueHashes,
    pub(crate) log: Arc<RunningLog>,
    /// None if no gateway runs.
    pub(crate) gateway: Option<ApplyRouting>,
    pub(crate) service: Arc<Service>,
    pub(crate) health: Arc<Health>,
}

impl ConfigurationFile {
    /// The keys that changed since startup and need a restart.
    fn needing_restart(&self, loaded: &LoadedSettings) -> Vec<String> {
        if without_followed(&loaded.settings) == without_followed(&self.started.settings) {
            return Vec::new();
        }
        let followed = [&Routing::KEYS[..], &LogSettings::RELOADABLE[..]].concat();
        let mut keys = self.started.value_hashes.changed(&loaded.value_hashes, &followed);
        if self.started.settings.gateway.is_some() != loaded.settings.gateway.is_some() {
            keys.push("gateway".to_owned());
        }
        keys
    }
}

impl FollowedFiles for ConfigurationFile {
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
        if let (Some(apply_routing), Some(gateway)) = (&self.gateway, &loaded.settings.gateway) {
            apply_routing(&gateway.routing).map_err(|error| text.problem(&error.to_string()))?;
        }
        self.log.reload(&loaded.settings.observability.log);
        let mut notes: Vec<String> = loaded.warnings.iter().map(ToString::to_string).collect();
        for warning in &notes {
            tracing::warn!("{warning}");
        }
        let keys = self.needing_restart(&loaded);
        if !keys.is_empty() {
            let keys = keys.join(", ");
            tracing::warn!("these settings changed, but need a restart to take effect: {keys}");
            notes.push(format!("needs a restart: {keys}"));
        }
        self.health.configuration_loaded(keys);
        self.service.stats().config_load_success.fetch_add(1, Ordering::Relaxed);
        let path = self.configuration.path.as_deref().unwrap_or(Path::new(""));
        // Only the keys: a value may be a secret.
        let changed = self.seen.changed(&loaded.value_hashes, &[]).join(", ");
        tracing::info!(path = %path.display(), changed, "configuration loaded");
        self.seen = loaded.value_hashes;
        Ok(notes)
    }

    fn refuse(&mut self, problems: &Problems) {
        self.service.stats().config_load_error.fetch_add(1, Ordering::Relaxed);
        self.health.configuration_refused(problems.to_string());
        tracing::error!("invalid configuration; the previous one stays active:\n{problems}");
    }
}

/// The settings that need a restart.
fn without_followed(settings: &Settings) -> Settings {
    let mut settings = settings.clone();
    if let Some(gateway) = &mut settings.gateway {
        gateway.routing.services.clear();
        gateway.routing.platform = hivemind_gateway::settings::Platform::default();
    }
    let log = &mut settings.observability.log;
    (log.levels, log.decisions) = (LogLevels::default(), DecisionLogSettings::default());
    settings
}
