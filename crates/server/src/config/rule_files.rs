//! Rules from a file, or from all files of a folder.

use super::problem::{Problem, Problems, Source};
use super::rule_file;
use crate::ruleset::Ruleset;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file of rules larger than this is refused unread.
const LARGEST: u64 = 64 << 20;

/// Rules, and what the operator should know about them.
#[derive(Debug)]
pub(crate) struct LoadedRules {
    pub(crate) ruleset: Ruleset,
    pub(crate) warnings: Vec<Problem>,
}

/// Loads all rules at `path`, or says everything that is wrong with them. With
/// `merge_domains`, several files may have rules of one domain.
pub(crate) fn load_rules(path: &Path, merge_domains: bool) -> Result<LoadedRules, Problems> {
    let mut problems = Vec::new();
    let mut ruleset = Ruleset::default();
    let mut domains: HashMap<String, PathBuf> = HashMap::new();
    let files = match rule_files_at(path) {
        Ok(files) => files,
        Err(error) => return Err(Problems(vec![unreadable(path, &error)])),
    };
    for file in files {
        let text = match read(&file) {
            Ok(text) => text,
            Err(error) => {
                problems.push(unreadable(&file, &error));
                continue;
            }
        };
        let source = Arc::new(Source { name: file.display().to_string(), text });
        let Some(domain) = rule_file::read(&source, &mut ruleset, &mut problems) else { continue };
        if let Some(first) = domains.insert(domain.clone(), file)
            && !merge_domains
        {
            let cause = format!("the domain `{domain}` is in {} already", first.display());
            problems.push(Problem::new(
                &source,
                None,
                cause,
                "put its rules into one file, or set `rate_limiting.merge_domains`",
            ));
        }
    }
    loaded(ruleset, problems)
}

/// The rules that Hivemind has when it is given none.
pub(crate) fn demo_rules() -> Result<LoadedRules, Problems> {
    parse_rules("built-in demo rules", include_str!("../../demo/rules.yaml"))
}

/// The rules of one file with this name and text.
pub(crate) fn parse_rules(name: &str, text: &str) -> Result<LoadedRules, Problems> {
    let source = Arc::new(Source { name: name.to_owned(), text: text.to_owned() });
    let (mut ruleset, mut problems) = (Ruleset::default(), Vec::new());
    rule_file::read(&source, &mut ruleset, &mut problems);
    loaded(ruleset, problems)
}

fn loaded(ruleset: Ruleset, problems: Vec<Problem>) -> Result<LoadedRules, Problems> {
    let (warnings, errors): (Vec<_>, Vec<_>) = problems.into_iter().partition(Problem::is_warning);
    if errors.is_empty() { Ok(LoadedRules { ruleset, warnings }) } else { Err(Problems(errors)) }
}

/// The file itself, or the rule files of a folder and of those below it, in order of their names.
pub(crate) fn rule_files_at(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !std::fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // A ConfigMap's own files (`..data`, `..2026_11_15`) would load everything twice.
        if name.starts_with('.') {
            continue;
        }
        let is_rules = path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
        if std::fs::metadata(&path)?.is_dir() {
            files.extend(rule_files_at(&path)?);
        } else if is_rules {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> std::io::Result<String> {
    if std::fs::metadata(path)?.len() > LARGEST {
        let text = format!("larger than {LARGEST} bytes");
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, text));
    }
    std::fs::read_to_string(path)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Problem {
    let source = Arc::new(Source { name: path.display().to_string(), text: String::new() });
    Problem::new(&source, None, format!("cannot be read: {error}"), "check the path and who may read it")
}
