//! The figures as Markdown, and which targets they miss.

use hivemind_benches::rounds::Taken;

/// What was measured, and how many targets it missed so far.
pub struct Report {
    taken: Vec<Taken>,
    missed: usize,
}

impl Report {
    /// A report on these.
    #[must_use]
    pub fn new(taken: Vec<Taken>) -> Self {
        Self { taken, missed: 0 }
    }

    /// How many targets were missed.
    #[must_use]
    pub fn missed(&self) -> usize {
        self.missed
    }

    /// One line of what `who` costs over `floor`, with the most nanoseconds that it may add and the most
    /// times the floor that it may cost.
    pub fn over(&mut self, what: &str, [who, floor]: [&str; 2], adds: Option<f64>, times: Option<f64>) {
        let (own, base) = (self.find(who), self.find(floor));
        let (added, ratio) = (own.0 - base.0, own.0 / base.0);
        let told = format!("{:.0} ({:.0}) | {:.0} ({:.0})", own.0, own.1, base.0, base.1);
        let target = match (adds, times) {
            (Some(most), _) => Some((format!("adds ≤ {most:.0}"), added <= most)),
            (_, Some(most)) => Some((format!("ratio ≤ {most}"), ratio <= most)),
            _ => None,
        };
        let (target, mark) = self.marked(target);
        println!("| {what} | {told} | {added:+.0} | {ratio:.2} | {target} | {mark} |");
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

    /// The median and the least of a contender.
    fn find(&self, name: &str) -> (f64, f64) {
        let taken = self.taken.iter().find(|taken| taken.name == name);
        taken.map_or((f64::NAN, f64::NAN), |taken| (taken.median, taken.least))
    }
}
