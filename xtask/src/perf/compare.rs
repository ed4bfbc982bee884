//! Comparison of counts with the committed ones: a table, the verdict, and where to look.

use super::callgrind::profile_of;
use super::counts::{Counts, FILE};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A count may be above the committed one by this much, in percent.
const TOLERANCE: u64 = 2;

pub(super) struct Comparison<'a> {
    pub(super) committed: &'a Counts,
    pub(super) now: &'a Counts,
}

/// How a count relates to the committed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Above,
    Below,
    Within,
    /// The case has no committed count.
    Added,
    /// The case no longer exists.
    Removed,
}

impl Comparison<'_> {
    /// Whether both are of the same compiler.
    fn gates(&self) -> bool {
        self.committed.compiler == self.now.compiler
    }

    pub(super) fn passed(&self) -> bool {
        let fails = |change| matches!(change, Change::Above | Change::Added | Change::Removed);
        !self.gates() || !self.cases().iter().any(|case| fails(self.change(case)))
    }

    /// The counts to commit: of each case the lower one. Counts of another compiler are replaced.
    pub(super) fn accepted(&self) -> Counts {
        let mut accepted = self.now.clone();
        if self.gates() {
            for (case, count) in &mut accepted.by_case {
                *count =
                    self.committed.by_case.get(case).map_or(*count, |committed| (*committed).min(*count));
            }
        }
        accepted
    }

    pub(super) fn report(&self) -> String {
        let mut report = self.table();
        if self.gates() {
            self.explain(&mut report);
        } else {
            let _ = writeln!(
                report,
                "skipped: the committed counts are of {}, and these of {}; `--accept` replaces them",
                self.committed.compiler, self.now.compiler
            );
        }
        report
    }

    fn table(&self) -> String {
        let cases = self.cases();
        let width = cases.iter().map(|case| case.len()).max().unwrap_or_default();
        let mut table = format!("{:width$}  {:>9}  {:>9}  {:>8}\n", "case", "committed", "now", "change");
        for case in cases {
            let (committed, now) = (self.committed.by_case.get(case), self.now.by_case.get(case));
            let number = |count: Option<&u64>| count.map_or("-".to_owned(), u64::to_string);
            let change = committed.zip(now).map_or(String::new(), |(before, now)| percent(*before, *now));
            let mark = match self.change(case) {
                _ if !self.gates() => "",
                Change::Within => "",
                Change::Above => "  above",
                Change::Below => "  below",
                Change::Added => "  no committed count",
                Change::Removed => "  no such case",
            };
            let (committed, now) = (number(committed), number(now));
            let _ = writeln!(table, "{case:width$}  {committed:>9}  {now:>9}  {change:>8}{mark}");
        }
        table
    }

    /// Cause, fix and where to look.
    fn explain(&self, report: &mut String) {
        let cases = self.cases();
        let of = |change| cases.iter().filter(move |case| self.change(case) == change);
        if let Some(case) = of(Change::Above).max_by_key(|case| self.rise(case)) {
            let _ = writeln!(
                report,
                "{} counts are more than {TOLERANCE} % above those of {FILE}; make the path cheaper, or raise the \
                 count by hand in a commit that says why\nwhere the instructions of the case that rose most are: \
                 callgrind_annotate target/callgrind/{} | head -50",
                of(Change::Above).count(),
                profile_of(case)
            );
        } else {
            let _ = writeln!(report, "No count is more than {TOLERANCE} % above that of {FILE}.");
        }
        if of(Change::Below).chain(of(Change::Added)).chain(of(Change::Removed)).next().is_some() {
            let _ = writeln!(report, "Counts are lower, new or of no case; run `cargo xtask perf --accept`");
        }
    }

    /// The change of a count that rose, in thousandths.
    fn rise(&self, case: &str) -> u64 {
        let (committed, now) = (self.committed.by_case.get(case), self.now.by_case.get(case));
        committed
            .zip(now)
            .map_or(0, |(committed, now)| now.saturating_sub(*committed) * 1_000 / committed.max(&1))
    }

    fn cases(&self) -> BTreeSet<&str> {
        self.committed.by_case.keys().chain(self.now.by_case.keys()).map(String::as_str).collect()
    }

    fn change(&self, case: &str) -> Change {
        match (self.committed.by_case.get(case), self.now.by_case.get(case)) {
            (Some(committed), Some(now)) if now * 100 > committed * (100 + TOLERANCE) => Change::Above,
            (Some(committed), Some(now)) if now * 100 < committed * (100 - TOLERANCE) => Change::Below,
            (Some(_), Some(_)) => Change::Within,
            (None, _) => Change::Added,
            (Some(_), None) => Change::Removed,
        }
    }
}

/// The change in percent, with one decimal.
fn percent(before: u64, now: u64) -> String {
    let per_mille = now.abs_diff(before) * 1_000 / before.max(1);
    let sign = if now < before { '-' } else { '+' };
    format!("{sign}{}.{} %", per_mille / 10, per_mille % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(compiler: &str, by_case: &[(&str, u64)]) -> Counts {
        let by_case = by_case.iter().map(|(case, count)| ((*case).to_owned(), *count)).collect();
        Counts { compiler: compiler.into(), by_case }
    }

    fn change(committed: u64, now: u64) -> Change {
        let (committed, now) = (counts("", &[("a", committed)]), counts("", &[("a", now)]));
        Comparison { committed: &committed, now: &now }.change("a")
    }

    #[test]
    fn change_beyond_two_percent_counts() {
        assert_eq!(change(1_000, 1_020), Change::Within);
        assert_eq!(change(1_000, 1_021), Change::Above);
        assert_eq!(change(1_000, 980), Change::Within);
        assert_eq!(change(1_000, 979), Change::Below);
    }

    #[test]
    fn rise_fails_and_names_case_fix_and_command() {
        let (committed, now) =
            (counts("c", &[("a: b", 100), ("d", 100)]), counts("c", &[("a: b", 103), ("d", 9)]));
        let comparison = Comparison { committed: &committed, now: &now };
        assert!(!comparison.passed());
        let report = comparison.report();
        assert!(report.contains("a: b        100        103    +3.0 %  above\n"), "{report}");
        assert!(
            report.contains("1 counts are more than 2 % above those of xtask/perf.txt; make the"),
            "{report}"
        );
        assert!(report.contains("callgrind_annotate target/callgrind/a-b |"), "{report}");
        assert!(report.contains("d           100          9   -91.0 %  below\n"), "{report}");
        assert!(report.ends_with("run `cargo xtask perf --accept`\n"), "{report}");
    }

    #[test]
    fn missing_count_or_case_fails() {
        let (none, one) = (counts("c", &[]), counts("c", &[("a", 1)]));
        assert!(!Comparison { committed: &none, now: &one }.passed());
        assert!(!Comparison { committed: &one, now: &none }.passed());
        assert!(Comparison { committed: &one, now: &one }.passed());
    }

    #[test]
    fn other_compiler_reports_without_verdict() {
        let (committed, now) = (counts("rustc 1", &[("a", 1)]), counts("rustc 2", &[("a", 9)]));
        let comparison = Comparison { committed: &committed, now: &now };
        assert!(comparison.passed());
        assert!(
            comparison
                .report()
                .contains("skipped: the committed counts are of rustc 1, and these of rustc 2")
        );
        assert_eq!(comparison.accepted(), now);
    }

    #[test]
    fn accept_lowers_adds_and_removes_but_never_raises() {
        let committed = counts("c", &[("fell", 10), ("rose", 10), ("removed", 10)]);
        let now = counts("c", &[("fell", 9), ("rose", 11), ("added", 5)]);
        let accepted = Comparison { committed: &committed, now: &now }.accepted();
        assert_eq!(accepted, counts("c", &[("fell", 9), ("rose", 10), ("added", 5)]));
    }
}
