//! Temporary folder of the demonstration, removed at its end.

use anyhow::Context;
use std::path::{Path, PathBuf};

/// The temporary folder.
pub(super) struct Scene(PathBuf);

impl Scene {
    /// Creates it, with a rule of one limit.
    pub(super) fn set(limit: u32) -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("hivemind-demo-{}", std::process::id()));
        // Left over from a killed process with the same id.
        let _ = std::fs::remove_dir_all(&folder);
        let made = std::fs::create_dir(&folder);
        made.with_context(|| format!("creating {}; set TMPDIR to a writable folder", folder.display()))?;
        let scene = Self(folder);
        let limit = format!("{{unit: second, requests_per_unit: {limit}}}");
        let rules = format!("domain: demo\ndescriptors:\n- {{key: client, rate_limit: {limit}}}\n");
        std::fs::write(scene.path("rules.yaml"), rules).context("writing the rules")?;
        Ok(scene)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(super) fn folder(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // Leftovers stay in the temporary folder.
    }
}
