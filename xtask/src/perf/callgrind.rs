//! Instruction counts by callgrind, which counts only within the loop of the measured program. Each case runs with two
//! numbers of iterations; the difference divided by their distance contains no first iteration that allocates.

use anyhow::{Context, bail, ensure};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

const FEW: u32 = 1_000;
const MANY: u32 = 3_000;

/// Runs the measured program, and keeps a profile of each case for `callgrind_annotate`.
pub(super) struct Callgrind {
    valgrind: PathBuf,
    program: PathBuf,
    folder: PathBuf,
}

impl Callgrind {
    pub(super) fn new(program: PathBuf, folder: PathBuf) -> anyhow::Result<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let valgrind = std::env::split_paths(&path)
            .map(|folder| folder.join("valgrind"))
            .find(|file| file.is_file())
            .context("valgrind is not installed; on Debian: apt-get install valgrind")?;
        std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        Ok(Self { valgrind, program, folder })
    }

    /// Instructions per iteration of each case.
    pub(super) fn count_all(&self) -> anyhow::Result<BTreeMap<String, u64>> {
        let list = Command::new(&self.program).arg("--list").output().context("the program does not run")?;
        let list = String::from_utf8(list.stdout)?;
        list.lines().map(|case| Ok((case.to_owned(), self.count(case)?))).collect()
    }

    fn count(&self, case: &str) -> anyhow::Result<u64> {
        let (few, many) = (self.total(case, FEW)?, self.total(case, MANY)?);
        per_iteration(few, many, MANY - FEW).with_context(|| format!("{case}: more iterations took less"))
    }

    fn total(&self, case: &str, iterations: u32) -> anyhow::Result<u64> {
        let profile = profile_of(case);
        let mut valgrind = Command::new(&self.valgrind);
        valgrind
            .args(["--tool=callgrind", "--quiet", &format!("--callgrind-out-file={profile}")])
            // Preparation reads the clock, whose calibration takes a different number of instructions each time.
            .arg("--toggle-collect=hivemind_perf::repeat")
            .arg(&self.program)
            .args([case, &iterations.to_string()])
            // The environment is on the stack of the program, and moves what comes after it.
            .env_clear()
            .current_dir(&self.folder);
        let output = valgrind.output().context("valgrind does not run")?;
        ensure!(
            output.status.success(),
            "{case}: {}\n{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        let text = std::fs::read_to_string(self.folder.join(&profile))
            .with_context(|| format!("{case}: callgrind left no {profile}"))?;
        let Some(total) = total_of(&text) else { bail!("{profile} has no line `totals: `") };
        Ok(total)
    }
}

/// The file name of a case's profile.
pub(super) fn profile_of(case: &str) -> String {
    let words = case.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-")
}

fn total_of(profile: &str) -> Option<u64> {
    profile.lines().rev().find_map(|line| line.strip_prefix("totals: "))?.trim().parse().ok()
}

/// Rounded to the nearest number.
fn per_iteration(few: u64, many: u64, iterations: u32) -> Option<u64> {
    let iterations = u64::from(iterations);
    Some((many.checked_sub(few)? + iterations / 2) / iterations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn total_is_read_from_a_profile() {
        assert_eq!(total_of("version: 1\nevents: Ir\nfn=(1)\n3 40\n\ntotals: 1826637\n"), Some(1_826_637));
        assert_eq!(total_of("version: 1\n"), None);
    }

    #[test]
    fn per_iteration_count_excludes_startup() {
        assert_eq!(per_iteration(836_637, 1_826_637, 2_000), Some(495));
        assert_eq!(per_iteration(500, 500 + 2_999, 2_000), Some(1));
        assert_eq!(per_iteration(500, 500 + 3_000, 2_000), Some(2));
        assert_eq!(per_iteration(2, 1, 2_000), None);
    }

    #[test]
    fn profile_name_is_plain() {
        assert_eq!(profile_of("decision: batch of 2, refused"), "decision-batch-of-2-refused");
    }
}
