//! Ratchets: counts of known faults that may only fall, committed in `xtask/ratchets.txt`.
//!
//! A check finds places under a key. More places than committed fail; fewer print a hint to run `--accept`, which
//! lowers the count. A count is raised by hand only, in a commit that says why.

mod commits;
mod cycles;
mod markdown;
mod names;
mod rust;
mod size;
mod words;

use crate::tree::Tree;
use anyhow::Context;
use std::collections::BTreeMap;
use std::fmt::Write as _;

const FILE: &str = "xtask/ratchets.txt";
const HEADER: &str = "\
# Counts of known faults, which may only fall: `cargo xtask ratchets` compares, `--accept` writes lower counts.
# A count is raised by hand only, in a commit that says why.
";
/// How many places of a key are printed.
const SHOWN: usize = 20;

/// The places found under each key, as `path:line: text`.
#[derive(Default)]
pub(crate) struct Findings(BTreeMap<String, Finding>);

/// A size has no places of its own, so the count is kept apart from them.
#[derive(Default)]
struct Finding {
    count: usize,
    places: Vec<String>,
}

impl Findings {
    fn add(&mut self, key: impl Into<String>, place: String) {
        let finding = self.0.entry(key.into()).or_default();
        finding.count += 1;
        finding.places.push(place);
    }

    fn set(&mut self, key: impl Into<String>, count: usize, place: String) {
        self.0.insert(key.into(), Finding { count, places: vec![place] });
    }
}

/// Counts as they are committed, by key.
type Counts = BTreeMap<String, usize>;

fn parse(text: &str) -> anyhow::Result<Counts> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let count = |(number, line): (usize, &str)| {
        let (key, count) =
            line.rsplit_once(" = ").with_context(|| format!("{FILE}:{}: not `key = count`", number + 1))?;
        let count =
            count.parse().with_context(|| format!("{FILE}:{}: `{count}` is not a number", number + 1))?;
        Ok((key.to_owned(), count))
    };
    lines.map(count).collect()
}

fn format(counts: &Counts) -> String {
    counts.iter().filter(|(_, count)| **count > 0).fold(HEADER.to_owned(), |mut text, (key, count)| {
        let _ = writeln!(text, "{key} = {count}");
        text
    })
}

/// The keys whose count is above the committed one, and those where it is below.
fn compare<'a>(found: &'a Findings, committed: &'a Counts) -> (Vec<&'a str>, Vec<&'a str>) {
    let limit = |key: &str| committed.get(key).copied().unwrap_or_default();
    let above =
        found.0.iter().filter(|(key, finding)| finding.count > limit(key)).map(|(key, _)| key.as_str());
    let count = |key: &str| found.0.get(key).map_or(0, |finding| finding.count);
    let below = committed.iter().filter(|(key, limit)| count(key) < **limit).map(|(key, _)| key.as_str());
    (above.collect(), below.collect())
}

fn find(tree: &Tree) -> anyhow::Result<Findings> {
    let mut findings = Findings::default();
    words::check(tree, &mut findings)?;
    markdown::check(tree, &mut findings)?;
    commits::check(tree, &mut findings)?;
    let sources = rust::sources(tree)?;
    names::check(&sources, &mut findings);
    cycles::check(&sources, &mut findings);
    size::check(tree, &mut findings)?;
    Ok(findings)
}

/// What to print, and whether no count rose.
pub(crate) struct Outcome {
    pub(crate) report: String,
    pub(crate) passed: bool,
}

/// Compares the tree with the committed counts; `accept` writes those that fell.
pub(crate) fn run(tree: &Tree, accept: bool, places_of: Option<&str>) -> anyhow::Result<Outcome> {
    let path = tree.root().join(FILE);
    let committed = parse(&std::fs::read_to_string(&path).unwrap_or_default())?;
    let found = find(tree)?;
    let mut report = String::new();
    if let Some(wanted) = places_of {
        for (key, finding) in found.0.iter().filter(|(key, _)| key.starts_with(wanted)) {
            writeln!(report, "{key}: {}", finding.count)?;
            finding.places.iter().try_for_each(|place| writeln!(report, "    {place}"))?;
        }
        return Ok(Outcome { report, passed: true });
    }
    let (above, below) = compare(&found, &committed);
    for key in &above {
        let Some(finding) = found.0.get(*key) else { continue };
        writeln!(
            report,
            "{key}: {} (committed: {})",
            finding.count,
            committed.get(*key).copied().unwrap_or_default()
        )?;
        finding.places.iter().take(SHOWN).try_for_each(|place| writeln!(report, "    {place}"))?;
        if finding.places.len() > SHOWN {
            writeln!(
                report,
                "    and {} more: cargo xtask ratchets --places '{key}'",
                finding.places.len() - SHOWN
            )?;
        }
    }
    let lowered: Counts =
        below.iter().map(|key| ((*key).to_owned(), found.0.get(*key).map_or(0, |it| it.count))).collect();
    if accept {
        let counts = committed.clone().into_iter().chain(lowered.clone()).collect();
        std::fs::write(&path, format(&counts)).with_context(|| format!("writing {FILE}"))?;
    }
    for (key, count) in &lowered {
        let done =
            if accept { "accepted" } else { "lower than committed; run `cargo xtask ratchets --accept`" };
        writeln!(report, "{key}: {count}, {done}")?;
    }
    if !above.is_empty() {
        writeln!(report, "{} counts are above those of {FILE}; mend the places above", above.len())?;
    }
    if above.is_empty() && lowered.is_empty() {
        writeln!(report, "{} counts are as committed in {FILE}.", committed.len())?;
    }
    Ok(Outcome { passed: above.is_empty(), report })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(key: &str, count: usize) -> Findings {
        let mut findings = Findings::default();
        (0..count).for_each(|line| findings.add(key, format!("a.rs:{line}")));
        findings
    }

    #[test]
    fn count_above_committed_is_reported() {
        let committed = parse("# comment\nwords: docs = 2\n").unwrap();
        assert_eq!(compare(&findings("words: docs", 3), &committed), (vec!["words: docs"], vec![]));
        assert_eq!(compare(&findings("words: docs", 2), &committed), (vec![], vec![]));
        assert_eq!(compare(&findings("words: docs", 1), &committed), (vec![], vec!["words: docs"]));
    }

    #[test]
    fn unknown_key_counts_from_zero() {
        assert_eq!(compare(&findings("new", 1), &Counts::new()), (vec!["new"], vec![]));
    }

    #[test]
    fn counts_survive_a_round_trip_and_zero_is_dropped() {
        let counts = parse("a = b = 3\nc = 0\n").unwrap();
        assert_eq!(parse(&format(&counts)).unwrap(), Counts::from([("a = b".to_owned(), 3)]));
    }

    #[test]
    fn malformed_line_is_rejected_with_place() {
        assert_eq!(parse("a = 1\nb: 2").unwrap_err().to_string(), "xtask/ratchets.txt:2: not `key = count`");
    }
}
