//! Titles of commits: `area: imperative`, at most 72 characters.

use super::Findings;
use crate::tree::Tree;

/// The last commit whose title is older than the rule.
const BASE: &str = "17d459402881661e6cd8241ab834f0d54480d1ef";
const LONGEST: usize = 72;
/// Verbs that titles had in another form than the imperative.
const OTHER_FORMS: [&str; 10] =
    ["adds", "added", "fixes", "fixed", "removes", "removed", "changes", "changed", "updates", "updated"];

/// Checks all commits after [`BASE`] but merges. Without it, which commits are new is not known: a source archive has
/// no history, and a shallow clone only a part of it.
pub(super) fn check(tree: &Tree, findings: &mut Findings) -> anyhow::Result<()> {
    if tree.git(&["rev-parse", "--git-dir"]).is_err() {
        findings.skip("commit titles: this tree is not a git repository");
        return Ok(());
    }
    if tree.git(&["merge-base", "--is-ancestor", BASE, "HEAD"]).is_err() {
        findings.skip(format!("commit titles: the history lacks {BASE:.8}, as in a shallow clone"));
        return Ok(());
    }
    let log = tree.git(&["log", "--no-merges", "--format=%h %s", &format!("{BASE}..HEAD")])?;
    check_log(&log, findings);
    Ok(())
}

/// Checks lines of `commit title`.
fn check_log(log: &str, findings: &mut Findings) {
    for line in log.lines() {
        let (commit, title) = line.split_once(' ').unwrap_or((line, ""));
        if !is_well_formed(title) {
            findings.add("commit titles", format!("{commit}: {title}"));
        }
    }
}

fn is_well_formed(title: &str) -> bool {
    let Some((areas, verb)) = title.split_once(": ") else { return false };
    let is_area = |area: &str| {
        let mut letters = area.chars();
        letters.next().is_some_and(|first| first.is_ascii_lowercase() || matches!(first, '.' | '*'))
            && letters.all(|letter| {
                letter.is_ascii_lowercase() || letter.is_ascii_digit() || "-_./*".contains(letter)
            })
    };
    let first = verb.split(' ').next().unwrap_or_default();
    let is_imperative =
        first.starts_with(|letter: char| letter.is_lowercase()) && !OTHER_FORMS.contains(&first);
    title.chars().count() <= LONGEST && areas.split(", ").all(is_area) && is_imperative
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;

    #[test]
    fn title_has_area_and_imperative() {
        for title in
            ["mesh: replicate grants before they are spent", "core, tower: name limits", ".ci: run once"]
        {
            assert!(is_well_formed(title), "{title}");
        }
        for title in
            ["What a node has to say", "Mesh: name it", "mesh: Fixed it", "mesh: fixed it", "mesh name"]
        {
            assert!(!is_well_formed(title), "{title}");
        }
        assert!(!is_well_formed(&format!("mesh: {}", "n".repeat(67))));
    }

    #[test]
    fn malformed_title_counts_with_its_commit() {
        let mut findings = Findings::default();
        check_log("1a2b3c mesh: name it\n4d5e6f Mesh things\n", &mut findings);
        assert_eq!(findings.places("commit titles"), ["4d5e6f: Mesh things"]);
    }

    fn skipped(folder: &Path) -> Vec<String> {
        let mut findings = Findings::default();
        check(&Tree::at(folder), &mut findings).unwrap();
        assert_eq!(findings.count("commit titles"), 0);
        findings.skipped
    }

    #[test]
    fn tree_without_history_is_skipped_with_a_reason() {
        let folder = std::env::temp_dir().join(format!("hivemind-ratchets-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        assert!(skipped(&folder)[0].contains("not a git repository"));
        let git = |arguments: &[&str]| {
            let done = Command::new("git").args(arguments).current_dir(&folder).output().unwrap();
            assert!(done.status.success(), "{done:?}");
        };
        git(&["init", "-q"]);
        git(&[
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@example.org",
            "commit",
            "-q",
            "--allow-empty",
            "-m",
            "A",
        ]);
        assert!(skipped(&folder)[0].contains("shallow clone"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
