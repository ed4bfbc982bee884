//! The folder that a demonstration happens in, gone with it.

use anyhow::Context;
use std::path::{Path, PathBuf};

/// A folder of its own.
pub(super) struct Scene(PathBuf);

impl Scene {
    /// Makes it, with a rule of one limit.
    pub(super) fn set(limit: u32) -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("hivemind-demo-{}", std::process::id()));
        // Of a process of this number that was killed.
        let _ = std::fs::remove_dir_all(&folder);
        let made = std::fs::create_dir(&folder);
        made.with_context(|| {
            format!("making {}; set TMPDIR to a folder that can be written", folder.display())
        })?;
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
        let _ = std::fs::remove_dir_all(&self.0); // What cannot be removed is in the folder for what may go.
    }
}
