//! Titles of commits: `area: imperative`, at most 72 characters.

use super::Findings;
use crate::tree::Tree;

/// The last commit whose title is older than the rule.
const BASE: &str = "17d459402881661e6cd8241ab834f0d54480d1ef";
const LONGEST: usize = 72;

pub(super) fn check(tree: &Tree, findings: &mut Findings) -> anyhow::Result<()> {
    // A shallow clone does not have the base, and then only what it has is checked.
    let has_base = tree.git(&["cat-file", "-e", BASE]).is_ok();
    let range = if has_base { format!("{BASE}..HEAD") } else { "HEAD".to_owned() };
    for line in tree.git(&["log", "--no-merges", "--format=%h %s", &range])?.lines() {
        let (commit, title) = line.split_once(' ').unwrap_or((line, ""));
        if !is_well_formed(title) {
            findings.add("commit titles", format!("{commit}: {title}"));
        }
    }
    Ok(())
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
    let is_imperative = first.starts_with(|letter: char| letter.is_lowercase())
        && ![
            "adds", "added", "fixes", "fixed", "removes", "removed", "changes", "changed", "updates",
            "updated",
        ]
        .contains(&first);
    title.chars().count() <= LONGEST && areas.split(", ").all(is_area) && is_imperative
}

#[cfg(test)]
mod tests {
    use super::is_well_formed;

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
}
