//! The figures as Markdown, and which targets they miss.

use hivemind_benches::rounds::Taken;

/// How many targets were missed so far.
#[derive(Default)]
pub struct Report {
    missed: usize,
}

impl Report {
    /// How many targets were missed.
    pub fn missed(&self) -> usize {
        self.missed
    }

    /// One line of CPU time: the first of `taken` over the second, and whether it is at most `target`.
    pub fn ratio(&mut self, what: &str, taken: &[Taken], target: f64) {
        let [ours, theirs] = taken else { return };
        let ratio = ours.median / theirs.median;
        let told = |taken: &Taken| format!("{:.0} ({:.0})", taken.median, taken.least);
        let mark = self.mark(ratio <= target);
        println!("| {what} | {} | {} | {ratio:.3} | ≤ {target} | {mark} |", told(ours), told(theirs));
    }

    /// PASS or FAIL, which is counted.
    pub fn mark(&mut self, holds: bool) -> &'static str {
        self.missed += usize::from(!holds);
        if holds { "PASS" } else { "FAIL" }
    }
}
