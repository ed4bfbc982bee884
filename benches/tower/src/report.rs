//! Report in Markdown with missed targets.

use hivemind_benches::rounds::Taken;

/// The measurements, and the number of missed targets so far.
pub struct Report {
    taken: Vec<Taken>,
    missed: usize,
}

impl Report {
    /// A report of these measurements.
    #[must_use]
    pub fn new(taken: Vec<Taken>) -> Self {
        Self { taken, missed: 0 }
    }

    /// The number of missed targets.
    #[must_use]
    pub fn missed(&self) -> usize {
        self.missed
    }

    /// Prints the cost of `who` over `floor`, with the maximum of added nanoseconds and the maximum ratio.
    pub fn over(&mut self, what: &str, [who, floor]: [&str; 2], adds: Option<f64>, times: Option<f64>) {
        let (own, base) = (self.find(who), self.find(floor));
        let (added, ratio) = (own.0 - base.0, own.0 / base.0);
        let columns = format!("{:.0} ({:.0}) | {:.0} ({:.0})", own.0, own.1, base.0, base.1);
        let target = match (adds, times) {
            (Some(most), _) => Some((format!("adds ≤ {most:.0}"), added <= most)),
            (_, Some(most)) => Some((format!("ratio ≤ {most}"), ratio <= most)),
            _ => None,
        };
        let (target, mark) = self.marked(target);
        println!("| {what} | {columns} | {added:+.0} | {ratio:.2} | {target} | {mark} |");
    }

    fn marked(&mut self, target: Option<(String, bool)>) -> (String, &'static str) {
        match target {
            None => (String::from("-"), ""),
            Some((text, true)) => (text, "PASS"),
            Some((text, false)) => {
                self.missed += 1;
                (text, "FAIL")
            }
        }
    }

    /// The median and the minimum of a contender.
    fn find(&self, name: &str) -> (f64, f64) {
        let taken = self.taken.iter().find(|taken| taken.name == name);
        taken.map_or((f64::NAN, f64::NAN), |taken| (taken.median, taken.least))
    }
}
