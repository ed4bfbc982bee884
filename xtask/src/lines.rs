//! Production lines: what a crate has without its tests.

use crate::tree::{File, Tree};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Whether a path is a source file of a crate that no test build alone compiles.
pub(crate) fn is_production(path: &str) -> bool {
    let in_source = path.starts_with("crates/") && path.contains("/src/");
    in_source && has_extension(path, "rs") && !path.contains("/tests/") && !path.ends_with("/tests.rs")
}

pub(crate) fn has_extension(path: &str, extension: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, end)| end == extension)
}

/// The name of the crate's folder.
pub(crate) fn crate_of(path: &str) -> &str {
    path.strip_prefix("crates/").and_then(|rest| rest.split('/').next()).unwrap_or_default()
}

/// Lines before the module's unit tests, which stand at the end of a file.
pub(crate) fn production_lines(file: &File) -> usize {
    let end =
        file.text.find("\n#[cfg(test)]\nmod tests {").map_or(file.text.as_str(), |at| &file.text[..=at]);
    end.lines().count()
}

pub(crate) fn by_crate(files: &[File]) -> BTreeMap<&str, usize> {
    let mut lines = BTreeMap::new();
    for file in files {
        *lines.entry(crate_of(&file.path)).or_default() += production_lines(file);
    }
    lines
}

/// The length that nine of ten files do not exceed.
pub(crate) fn ninetieth_percentile(files: &[File]) -> usize {
    let mut lengths: Vec<_> = files.iter().map(|file| file.text.lines().count()).collect();
    lengths.sort_unstable();
    lengths.get((lengths.len() * 9 / 10).min(lengths.len().saturating_sub(1))).copied().unwrap_or_default()
}

pub(crate) fn report(tree: &Tree) -> anyhow::Result<String> {
    let files = tree.files(is_production)?;
    let lines = by_crate(&files);
    let mut report = String::new();
    for (name, count) in &lines {
        writeln!(report, "{count:>7}  {name}")?;
    }
    writeln!(report, "{:>7}  in all", lines.values().sum::<usize>())?;
    writeln!(report, "{:>7}  lines in nine of ten files at most", ninetieth_percentile(&files))?;
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_tests_and_test_files_are_not_production() {
        let text = "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\n".to_owned();
        assert_eq!(production_lines(&File { path: "crates/a/src/b.rs".to_owned(), text }), 2);
        assert!(is_production("crates/a/src/b.rs") && is_production("crates/a/src/b/c.rs"));
        for path in
            ["crates/a/tests/b.rs", "crates/a/src/tests.rs", "crates/a/src/b/tests/c.rs", "xtask/src/main.rs"]
        {
            assert!(!is_production(path), "{path}");
        }
    }
}
