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
pub(crate) struct Findings {
    by_key: BTreeMap<String, Finding>,
    /// Checks that could not run, with the reason.
    skipped: Vec<String>,
}

/// A size has no places of its own, so the count is kept apart from them.
#[derive(Default)]
struct Finding {
    count: usize,
    places: Vec<String>,
}

impl Findings {
    fn add(&mut self, key: impl Into<String>, place: String) {
        let finding = self.by_key.entry(key.into()).or_default();
        finding.count += 1;
        finding.places.push(place);
    }

    fn set(&mut self, key: impl Into<String>, count: usize, place: String) {
        self.by_key.insert(key.into(), Finding { count, places: vec![place] });
    }

    fn skip(&mut self, reason: impl Into<String>) {
        self.skipped.push(reason.into());
    }

    fn count(&self, key: &str) -> usize {
        self.by_key.get(key).map_or(0, |finding| finding.count)
    }

    #[cfg(test)]
    fn keys(&self) -> impl Iterator<Item = &str> {
        self.by_key.keys().map(String::as_str)
    }

    #[cfg(test)]
    fn places(&self, key: &str) -> &[String] {
        self.by_key.get(key).map_or(&[], |finding| &finding.places)
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
        found.by_key.iter().filter(|(key, finding)| finding.count > limit(key)).map(|(key, _)| key.as_str());
    // A check that did not run found nothing, which is not progress.
    let is_skipped = |key: &str| found.skipped.iter().any(|reason| reason.starts_with(key));
    let below = committed.iter().filter(|(key, limit)| found.count(key) < **limit && !is_skipped(key));
    let below = below.map(|(key, _)| key.as_str());
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

/// Compares the tree with the committed counts; `accept` writes those that fell, or all if none are committed yet.
pub(crate) fn run(tree: &Tree, accept: bool, places_of: Option<&str>) -> anyhow::Result<Outcome> {
    let found = find(tree)?;
    if let Some(wanted) = places_of {
        return Ok(Outcome { report: list(&found, wanted), passed: true });
    }
    let path = tree.root().join(FILE);
    let committed = match std::fs::read_to_string(&path) {
        Ok(text) => parse(&text)?,
        Err(error) if accept && error.kind() == std::io::ErrorKind::NotFound => {
            let counts = found.by_key.iter().map(|(key, finding)| (key.clone(), finding.count)).collect();
            std::fs::write(&path, format(&counts)).with_context(|| format!("writing {FILE}"))?;
            return Ok(Outcome {
                report: format!("{FILE}: {} counts written\n", counts.len()),
                passed: true,
            });
        }
        Err(error) => return Err(error).with_context(|| format!("reading {FILE}")),
    };
    let outcome = report(&found, &committed, accept);
    if accept {
        let (_, below) = compare(&found, &committed);
        let lower: Vec<_> = below.iter().map(|key| ((*key).to_owned(), found.count(key))).collect();
        let mut counts = committed.clone();
        counts.extend(lower);
        std::fs::write(&path, format(&counts)).with_context(|| format!("writing {FILE}"))?;
    }
    Ok(outcome)
}

/// All places of the keys that begin with `wanted`.
fn list(found: &Findings, wanted: &str) -> String {
    let mut list = String::new();
    for (key, finding) in found.by_key.iter().filter(|(key, _)| key.starts_with(wanted)) {
        let _ = writeln!(list, "{key}: {}", finding.count);
        for place in &finding.places {
            let _ = writeln!(list, "    {place}");
        }
    }
    list
}

/// Describes each count that rose or fell.
fn report(found: &Findings, committed: &Counts, accept: bool) -> Outcome {
    let (above, below) = compare(found, committed);
    let mut report = String::new();
    let mut line = |text: String| report.push_str(&(text + "\n"));
    for key in &above {
        let count = found.count(key);
        line(match committed.get(*key) {
            Some(limit) => {
                format!("{key}: {count}, which is {} more than the {limit} in {FILE}", count - limit)
            }
            None => format!("{key}: {count}, and {FILE} has no such count, which allows 0"),
        });
        let places = found.by_key.get(*key).map_or(&[][..], |finding| &finding.places);
        places.iter().take(SHOWN).for_each(|place| line(format!("    {place}")));
        if places.len() > SHOWN {
            line(format!("    and {} more: cargo xtask ratchets --places '{key}'", places.len() - SHOWN));
        }
    }
    for key in &below {
        let done =
            if accept { "accepted" } else { "lower than committed; run `cargo xtask ratchets --accept`" };
        line(format!("{key}: {}, {done}", found.count(key)));
    }
    found.skipped.iter().for_each(|reason| line(format!("skipped: {reason}")));
    if !above.is_empty() {
        line(format!(
            "{} counts rose. Fix the new places among those above; a count may only be raised by hand in {FILE}, in a \
             commit that says why.",
            above.len()
        ));
    }
    if above.is_empty() && below.is_empty() {
        line(format!("{} counts are as committed in {FILE}.", committed.len()));
    }
    Outcome { passed: above.is_empty(), report }
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
    fn risen_count_fails_with_both_numbers_and_places() {
        let committed = Counts::from([("words: docs".to_owned(), 1)]);
        let outcome = report(&findings("words: docs", 2), &committed, false);
        assert!(!outcome.passed);
        assert!(
            outcome.report.contains("words: docs: 2, which is 1 more than the 1 in"),
            "{}",
            outcome.report
        );
        assert!(outcome.report.contains("    a.rs:1\n"), "{}", outcome.report);
        let outcome = report(&findings("new", 30), &Counts::new(), false);
        assert!(!outcome.passed && outcome.report.contains("has no such count"), "{}", outcome.report);
        assert!(outcome.report.contains("and 10 more"), "{}", outcome.report);
    }

    #[test]
    fn skipped_check_is_printed_and_lowers_nothing() {
        let committed = Counts::from([("commit titles".to_owned(), 1)]);
        let mut findings = Findings::default();
        findings.skip("commit titles: no history");
        let outcome = report(&findings, &committed, false);
        assert!(outcome.passed && outcome.report.contains("skipped: commit titles: no history"));
        assert!(!outcome.report.contains("lower"), "{}", outcome.report);
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
