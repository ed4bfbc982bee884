//! Committed counts: the compiler, and a line `case = instructions` for each case.

use anyhow::{Context, ensure};
use std::collections::BTreeMap;
use std::fmt;

pub(super) const FILE: &str = "xtask/perf.txt";
const HEADER: &str = "\
# Instructions per iteration of each case of benches/perf. `cargo xtask perf` compares, `--accept` writes lower counts.
# A count is raised by hand only, in a commit that says why.
";
const COMPILER: &str = "compiler";

/// Instructions by case, as counted with a compiler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) compiler: String,
    pub(super) by_case: BTreeMap<String, u64>,
}

impl Counts {
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut counts = Self::default();
        let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        for (number, line) in lines {
            let place = || format!("{FILE}:{}", number + 1);
            let (key, value) =
                line.rsplit_once(" = ").with_context(|| format!("{}: not `case = instructions`", place()))?;
            if key == COMPILER {
                value.clone_into(&mut counts.compiler);
                continue;
            }
            let count = value.parse().with_context(|| format!("{}: `{value}` is not a number", place()))?;
            counts.by_case.insert(key.to_owned(), count);
        }
        ensure!(!counts.compiler.is_empty(), "{FILE} has no line `{COMPILER} = version`");
        Ok(counts)
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{HEADER}{COMPILER} = {}", self.compiler)?;
        self.by_case.iter().try_for_each(|(case, count)| writeln!(out, "{case} = {count}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_survive_a_round_trip() {
        let by_case = [("a: b, c".to_owned(), 3), ("d".to_owned(), 1_234)].into();
        let counts = Counts { compiler: "rustc 1.95.0, x86_64".into(), by_case };
        assert_eq!(Counts::parse(&counts.to_string()).unwrap(), counts);
    }

    #[test]
    fn malformed_line_is_rejected_with_place() {
        let error = |text| Counts::parse(text).unwrap_err().to_string();
        assert_eq!(error("# comment\na: 1"), "xtask/perf.txt:2: not `case = instructions`");
        assert_eq!(error("a = 1\nb = many"), "xtask/perf.txt:2: `many` is not a number");
        assert_eq!(error("a = 1"), "xtask/perf.txt has no line `compiler = version`");
    }
}
