//! The working tree: the files that git tracks or would add, with their contents; all files without git.

use anyhow::{Context, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file by its path from the root, with `/` as the separator.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// The repository around the current folder.
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(crate) fn open() -> anyhow::Result<Self> {
        let folder = std::env::current_dir().context("the current folder")?;
        let root = folder.ancestors().find(|folder| folder.join("xtask/Cargo.toml").is_file());
        Ok(Self { root: root.context("no repository with `xtask` around the current folder")?.to_owned() })
    }

    #[cfg(test)]
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
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

    /// The files of a source archive below a folder, without what a build creates.
    fn walk(&self, folder: &str) -> anyhow::Result<Vec<String>> {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(self.root.join(folder))? {
            let entry = entry?;
            let Some(name) = entry.file_name().to_str().map(ToOwned::to_owned) else { continue };
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            if !entry.file_type()?.is_dir() {
                files.push(path);
            } else if !name.starts_with("target") && name != ".git" {
                files.extend(self.walk(&path)?);
            }
        }
        Ok(files)
    }

    /// All text files whose path `wanted` accepts, sorted by path.
    pub(crate) fn files(&self, wanted: impl Fn(&str) -> bool) -> anyhow::Result<Vec<File>> {
        let list = self.git(&["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let mut paths = match list {
            Ok(list) => list.split('\0').map(ToOwned::to_owned).collect(),
            Err(_) => self.walk("")?,
        };
        paths.retain(|path: &String| !path.is_empty() && wanted(path));
        paths.sort_unstable();
        paths.dedup();
        let read = |path: String| {
            let full = self.root.join(&path);
            // A tracked file may be deleted in the working tree, and a link is read where it leads to.
            let text = full.is_file().then(|| std::fs::read(&full).ok()).flatten()?;
            Some(File { path, text: String::from_utf8(text).ok()? })
        };
        Ok(paths.into_iter().filter_map(read).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_without_git() {
        let root = std::env::temp_dir().join(format!("hivemind-tree-{}", std::process::id()));
        for path in ["docs/guide/a.md", "b.md", "target/c.md", "fuzz/target/d.md"] {
            std::fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            std::fs::write(root.join(path), "text").unwrap();
        }
        let files = Tree::at(&root).files(|path| crate::lines::has_extension(path, "md")).unwrap();
        assert_eq!(
            files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(),
            ["b.md", "docs/guide/a.md"]
        );
        std::fs::remove_dir_all(&root).unwrap();
    }
}
