//! Report in Markdown with missed targets.

use hivemind_benches::rounds::Taken;

/// The number of missed targets so far.
#[derive(Default)]
pub struct Report {
    missed: usize,
}

impl Report {
    /// The number of missed targets.
    pub fn missed(&self) -> usize {
        self.missed
    }

    /// Prints a line of CPU time: the first of `taken` divided by the second, compared with `target`.
    pub fn ratio(&mut self, what: &str, taken: &[Taken], target: f64) {
        let [ours, theirs] = taken else { return };
        let ratio = ours.median / theirs.median;
        let format_time = |taken: &Taken| format!("{:.0} ({:.0})", taken.median, taken.least);
        let mark = self.mark(ratio <= target);
        println!(
            "| {what} | {} | {} | {ratio:.3} | ≤ {target} | {mark} |",
            format_time(ours),
            format_time(theirs)
        );
    }

    /// Returns PASS or FAIL and counts failures.
    pub fn mark(&mut self, holds: bool) -> &'static str {
        self.missed += usize::from(!holds);
        if holds { "PASS" } else { "FAIL" }
    }
}
