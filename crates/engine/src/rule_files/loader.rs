//! Loading of rules from a file or from all files of a folder.

use super::bounds::{RuleBounds, RulesSize};
use super::rule_file;
use crate::ruleset::Ruleset;
use hivemind_config::bounded_file::read_bounded;
use hivemind_config::problem::{Problem, Problems, SourceText};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Maximum depth of nested folders.
const DEEPEST: usize = 8;
/// Maximum size of a rule file.
const LARGEST: u64 = 64 << 20;

/// Rules and the warnings about them.
#[derive(Debug)]
pub struct LoadedRules {
    pub ruleset: Ruleset,
    pub warnings: Vec<Problem>,
}

/// The texts of all rule files, read once, so that the compared and the parsed text are the same.
pub struct RuleTexts(Vec<Arc<SourceText>>);

impl RuleTexts {
    /// Reads the file at `path`, or all rule files of a folder.
    pub fn read(path: &Path) -> Result<Self, Problems> {
        let files = rule_files_at(path, 0).map_err(|error| Problems(vec![unreadable(path, &error)]))?;
        if files.is_empty() {
            // A folder that is not mounted yet must not remove all limits.
            let cause = "the folder has no .yaml or .yml file";
            let remedy = "put rules there, or name another folder; a file with a domain alone limits nothing";
            return Err(Problems(vec![about(path, cause, remedy)]));
        }
        let (mut texts, mut problems) = (Vec::new(), Vec::new());
        for file in files {
            match read_bounded(&file, LARGEST) {
                Ok(text) => texts.push(Arc::new(SourceText { name: file.display().to_string(), text })),
                Err(error) => problems.push(unreadable(&file, &error)),
            }
        }
        if problems.is_empty() { Ok(Self(texts)) } else { Err(Problems(problems)) }
    }

    /// Builds the value from names and texts.
    pub fn of(files: impl Iterator<Item = (String, String)>) -> Self {
        Self(files.map(|(name, text)| Arc::new(SourceText { name, text })).collect())
    }

    /// A fingerprint that is equal for equal names and texts.
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for source in &self.0 {
            (&source.name, &source.text).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Parses the rules within the bounds of files, or returns all problems. With `merge_domains`, several files may
    /// define the same domain.
    pub fn parse(&self, merge_domains: bool) -> Result<LoadedRules, Problems> {
        self.parse_within(merge_domains, &RuleBounds::files())
    }

    /// Like [`RuleTexts::parse`], within other bounds.
    pub fn parse_within(&self, merge_domains: bool, bounds: &RuleBounds) -> Result<LoadedRules, Problems> {
        let (mut ruleset, mut problems) = (Ruleset::default(), Vec::new());
        let mut domains: HashMap<String, &str> = HashMap::new();
        let mut size = RulesSize::default();
        for source in &self.0 {
            let read = rule_file::read(source, (bounds, &mut size), &mut ruleset, &mut problems);
            if bounds.document.cancellation.is_set() || size.stopped {
                break; // The last problem is the reason.
            }
            let Some(domain) = read else { continue };
            if let Some(first) = domains.insert(domain.clone(), &source.name)
                && !merge_domains
            {
                let cause = format!("the domain `{domain}` is already in {first}");
                let remedy = "put its rules into one file, or set `rate_limiting.merge_domains`";
                problems.push(Problem::new(source, None, cause, remedy));
            }
        }
        loaded(ruleset, problems)
    }
}

/// Loads all rules at `path`, or returns all problems.
pub fn load_rules(path: &Path, merge_domains: bool) -> Result<LoadedRules, Problems> {
    RuleTexts::read(path)?.parse(merge_domains)
}

/// Parses the rules of one file with this name and text.
pub fn parse_rules(name: &str, text: &str) -> Result<LoadedRules, Problems> {
    let source = Arc::new(SourceText { name: name.to_owned(), text: text.to_owned() });
    let (mut ruleset, mut problems) = (Ruleset::default(), Vec::new());
    let (bounds, mut size) = (RuleBounds::files(), RulesSize::default());
    rule_file::read(&source, (&bounds, &mut size), &mut ruleset, &mut problems);
    loaded(ruleset, problems)
}

fn loaded(ruleset: Ruleset, problems: Vec<Problem>) -> Result<LoadedRules, Problems> {
    let (warnings, errors): (Vec<_>, Vec<_>) = problems.into_iter().partition(Problem::is_warning);
    if errors.is_empty() { Ok(LoadedRules { ruleset, warnings }) } else { Err(Problems(errors)) }
}

/// The file itself, or the rule files of a folder and its subfolders, sorted by name.
fn rule_files_at(path: &Path, depth: usize) -> std::io::Result<Vec<PathBuf>> {
    if !std::fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    if depth > DEEPEST {
        let text = format!("folders are nested deeper than {DEEPEST} levels, or link to each other");
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, text));
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // Skips the internal entries of a ConfigMap mount (`..data`, `..2026_11_15`), which would load everything twice.
        if name.starts_with('.') {
            continue;
        }
        let is_rules = path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
        // A dangling link is named in the error, here or when the file is read; the folder alone would not identify it.
        let is_folder = match std::fs::metadata(&path) {
            Ok(found) => found.is_dir(),
            Err(_) if is_rules => false,
            Err(error) => {
                return Err(std::io::Error::new(error.kind(), format!("{}: {error}", path.display())));
            }
        };
        if is_folder {
            files.extend(rule_files_at(&path, depth + 1)?);
        } else if is_rules {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Problem {
    about(path, &format!("cannot be read: {error}"), "check the path and its permissions")
}

/// A problem with a file or folder as a whole.
fn about(path: &Path, cause: &str, remedy: &str) -> Problem {
    let source = Arc::new(SourceText { name: path.display().to_string(), text: String::new() });
    Problem::new(&source, None, cause, remedy)
}

#[cfg(test)]
mod tests {
    use super::load_rules;

    // Seen failing on: the error named the folder, which exists.
    #[test]
    fn dangling_link_is_named_in_the_error() {
        let folder = tempfile::tempdir().unwrap();
        for (link, expected) in
            [("gone.yaml", "gone.yaml: cannot be read"), ("elsewhere", "elsewhere: No such file")]
        {
            let path = folder.path().join(link);
            std::os::unix::fs::symlink("/nonexistent", &path).unwrap();
            let problems = load_rules(folder.path(), false).err().map(|problems| problems.to_string());
            std::fs::remove_file(path).unwrap();
            assert!(problems.as_ref().is_some_and(|text| text.contains(expected)), "{link}: {problems:?}");
        }
    }
}
