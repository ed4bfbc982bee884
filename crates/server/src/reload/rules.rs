//! Reload of the rules of the rate limit service.

use super::FollowedFiles;
use hivemind_config::problem::Problems;
use hivemind_engine::health::Health;
use hivemind_engine::mesh::RunningMesh;
use hivemind_engine::rule_files::LoadedRules;
use hivemind_engine::rule_files::RuleTexts;
use hivemind_engine::service::Service;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The rule files and the components that use them.
pub(crate) struct RuleFiles {
    pub(crate) path: PathBuf,
    pub(crate) merge_domains: bool,
    /// The mesh node that announces the rules' fingerprint.
    pub(crate) mesh: Option<Arc<RunningMesh>>,
    pub(crate) service: Arc<Service>,
    pub(crate) health: Arc<Health>,
}

impl FollowedFiles for RuleFiles {
    type Texts = RuleTexts;
    type Trouble = Problems;

    fn paths(&self) -> Vec<PathBuf> {
        vec![self.path.clone()]
    }

    fn read(&self) -> Result<(u64, RuleTexts), Problems> {
        RuleTexts::read(&self.path).map(|texts| (texts.fingerprint(), texts))
    }

    fn load(&mut self, texts: RuleTexts) -> Result<Vec<String>, Problems> {
        let loaded = texts.parse(self.merge_domains)?;
        let notes = loaded.warnings.iter().map(ToString::to_string).collect();
        accepted(&self.service, &self.health, loaded);
        if let Some(mesh) = &self.mesh {
            self.service.with_rules(|rules| mesh.rules_are(rules));
        }
        let rules = self.service.with_rules(|rules| rules.declarations().count());
        tracing::info!(path = %self.path.display(), rules, "rules loaded");
        Ok(notes)
    }

    fn refuse(&mut self, problems: &Problems) {
        refused(&self.service, &self.health, problems);
    }
}

/// Activates rules.
pub(crate) fn accepted(service: &Service, health: &Health, loaded: LoadedRules) {
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    service.reload(loaded.ruleset);
    health.rules_loaded();
    service.stats().config_load_success.fetch_add(1, Ordering::Relaxed);
}

/// Reports that the rules on disk are invalid and not active.
pub(crate) fn refused(service: &Service, health: &Health, problems: &Problems) {
    service.stats().config_load_error.fetch_add(1, Ordering::Relaxed);
    health.rules_refused(problems.to_string());
    tracing::error!("invalid rules; the previous rules stay active:\n{problems}");
}
