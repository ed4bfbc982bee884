//! The working tree: the files that git tracks or would add, with their contents.

use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file by its path from the root, with `/` as the separator.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// The repository that this program was built in.
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(crate) fn open() -> anyhow::Result<Self> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = manifest.parent().context("xtask is a folder of the repository")?;
        Ok(Self { root: root.to_owned() })
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Runs `git` in the root and returns its standard output.
    pub(crate) fn git(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut git = Command::new("git");
        git.args(["-c", "safe.directory=*"]).args(arguments).current_dir(self.root());
        let output = git.output().context("git does not run")?;
        ensure!(
            output.status.success(),
            "git {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// All text files whose path `wanted` accepts, sorted by path.
    pub(crate) fn files(&self, wanted: impl Fn(&str) -> bool) -> anyhow::Result<Vec<File>> {
        let list = self.git(&["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
        let mut paths: Vec<_> = list.split('\0').filter(|path| !path.is_empty() && wanted(path)).collect();
        paths.sort_unstable();
        paths.dedup();
        let read = |path: &str| {
            let full = self.root.join(path);
            // A tracked file may be deleted in the working tree, and a link is read where it leads to.
            let text = full.is_file().then(|| std::fs::read(&full).ok()).flatten()?;
            Some(File { path: path.to_owned(), text: String::from_utf8(text).ok()? })
        };
        Ok(paths.into_iter().filter_map(read).collect())
    }
}
