//! Fuzzing campaign: runs each libFuzzer target of `fuzz/` for some minutes and continues after an interruption.
//!
//! A target runs in slices. After each slice its record is written, so an interruption loses at most one slice. Corpus,
//! record, log and crashing inputs stay in `target/fuzz/TARGET`.

mod build;
mod found;
mod record;
mod status;

use crate::tree::Tree;
use anyhow::{Context, bail, ensure};
use record::Record;
use status::Status;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Seconds of a slice: a record is written, and a line is printed, after each one.
const SLICE: u64 = 60;

/// An input that takes longer, or needs more memory, counts as a crash.
const LIMITS: [&str; 2] = ["-timeout=25", "-rss_limit_mb=2560"];

/// What to run, from the command line.
pub(crate) struct Options {
    pub(crate) minutes: u64,
    pub(crate) accept: bool,
    pub(crate) input: Option<PathBuf>,
    pub(crate) targets: Vec<String>,
}

/// Runs the selected targets one after another. Returns whether none crashed.
pub(crate) fn run(tree: &Tree, options: Options) -> anyhow::Result<bool> {
    let targets = select(all_targets(tree)?, options.targets)?;
    let programs = build::build(tree, &targets)?;
    let fuzzers: Vec<Fuzzer> = targets.into_iter().map(|name| Fuzzer::new(tree, name, &programs)).collect();
    if let Some(input) = options.input {
        let [fuzzer] = &fuzzers[..] else { bail!("--input needs exactly one target") };
        return fuzzer.repeat(&input);
    }
    let seconds = options.minutes * 60;
    start_over_if_complete(&fuzzers, seconds)?;
    let mut passed = true;
    for fuzzer in &fuzzers {
        passed &= fuzzer.fuzz(seconds)?;
        if options.accept {
            fuzzer.accept(tree)?;
        }
    }
    println!("\n{}", table(&fuzzers)?);
    Ok(passed)
}

/// The names of the files in `fuzz/fuzz_targets`, sorted.
fn all_targets(tree: &Tree) -> anyhow::Result<Vec<String>> {
    let folder = tree.root().join("fuzz/fuzz_targets");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        names.extend(path.file_stem().and_then(|name| name.to_str()).map(ToOwned::to_owned));
    }
    names.sort_unstable();
    Ok(names)
}

/// The wanted targets, or all of them if none is named.
fn select(all: Vec<String>, wanted: Vec<String>) -> anyhow::Result<Vec<String>> {
    if let Some(unknown) = wanted.iter().find(|name| !all.contains(name)) {
        bail!("unknown target `{unknown}`; known: {}", all.join(", "));
    }
    Ok(if wanted.is_empty() { all } else { wanted })
}

/// Begins a new round if each target has had its time, otherwise continues the current one.
fn start_over_if_complete(fuzzers: &[Fuzzer], seconds: u64) -> anyhow::Result<()> {
    for fuzzer in fuzzers {
        if fuzzer.record()?.round_seconds < seconds {
            return Ok(());
        }
    }
    println!("every target has had its time: starting a new round with the kept corpus");
    for fuzzer in fuzzers {
        fuzzer.write(&Record { round_seconds: 0, ..fuzzer.record()? })?;
    }
    Ok(())
}

/// What all runs so far reached, as a Markdown table.
fn table(fuzzers: &[Fuzzer]) -> anyhow::Result<String> {
    let mut lines =
        vec!["| target | minutes | executions | edges | corpus |\n|---|---|---|---|---|".to_owned()];
    for fuzzer in fuzzers {
        lines.push(format!("| `{}` {}", fuzzer.name, fuzzer.record()?.table_row()));
    }
    Ok(lines.join("\n"))
}

/// One target: its program and its folder below `target/fuzz`.
struct Fuzzer {
    name: String,
    program: PathBuf,
    home: PathBuf,
    /// Folders with committed inputs.
    seeds: Vec<PathBuf>,
}

impl Fuzzer {
    fn new(tree: &Tree, name: String, programs: &Path) -> Self {
        // The codec reads the same messages as the request.
        let written = if name == "rls_codec" { "rls_request" } else { &name };
        let seeds = [tree.root().join("fuzz/seeds").join(written), found::folder(tree, &name)];
        Self {
            program: programs.join(&name),
            home: tree.root().join("target/fuzz").join(&name),
            seeds: seeds.into_iter().filter(|folder| folder.is_dir()).collect(),
            name,
        }
    }

    fn record(&self) -> anyhow::Result<Record> {
        match std::fs::read_to_string(self.home.join("record")) {
            Ok(text) => Record::parse(&text).with_context(|| format!("target/fuzz/{}/record", self.name)),
            Err(_) => Ok(Record::default()),
        }
    }

    fn write(&self, record: &Record) -> anyhow::Result<()> {
        std::fs::write(self.home.join("record"), record.to_string()).context("writing the record")
    }

    /// Runs slices until the round has this many seconds. Returns whether nothing crashed.
    fn fuzz(&self, seconds: u64) -> anyhow::Result<bool> {
        for folder in ["corpus", "artifacts"] {
            std::fs::create_dir_all(self.home.join(folder)).context("creating folders in target/fuzz")?;
        }
        let mut record = self.record()?;
        while record.round_seconds < seconds {
            let slice = SLICE.min(seconds - record.round_seconds);
            let (status, passed) = self.slice(slice)?;
            record.add(slice, &status);
            self.write(&record)?;
            println!("{}: {}", self.name, record.progress(seconds));
            if !passed {
                self.report_crash()?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Runs libFuzzer for this many seconds. Returns its last status, and whether nothing crashed.
    fn slice(&self, seconds: u64) -> anyhow::Result<(Status, bool)> {
        let log = std::fs::File::create(self.log()).context("creating the log")?;
        let mut fuzzer = Command::new(&self.program);
        fuzzer
            .arg(format!("-max_total_time={seconds}"))
            .args(LIMITS)
            .arg(format!("-artifact_prefix={}/", self.home.join("artifacts").display()))
            .arg(self.home.join("corpus"))
            .args(&self.seeds)
            .stdout(Stdio::null())
            .stderr(log);
        let exit = fuzzer.status().with_context(|| format!("{} does not run", self.program.display()))?;
        let text = self.read_log()?;
        let status = text.lines().rev().find_map(Status::parse).unwrap_or_default();
        ensure!(exit.code() != Some(INTERRUPTED), "interrupted; the same command continues");
        Ok((status, exit.success()))
    }

    fn log(&self) -> PathBuf {
        self.home.join("log")
    }

    /// Inputs may be printed as they are, so the log need not be UTF-8.
    fn read_log(&self) -> anyhow::Result<String> {
        let bytes = std::fs::read(self.log()).context("reading the log")?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn report_crash(&self) -> anyhow::Result<()> {
        let log = self.read_log()?;
        for line in log.lines().filter(|line| status::is_cause(line)) {
            println!("    {line}");
        }
        match status::crashing_input(&log) {
            Some(file) => {
                println!(
                    "{}: crashed; repeat it with:\n    cargo xtask fuzz {} --input {file}",
                    self.name, self.name
                );
            }
            None => println!("{}: failed without an input; see {}", self.name, self.log().display()),
        }
        Ok(())
    }

    /// Runs the target once with one file and prints all that it writes. Returns whether it passed.
    fn repeat(&self, input: &Path) -> anyhow::Result<bool> {
        let exit = Command::new(&self.program).args(LIMITS).arg(input).status();
        Ok(exit.with_context(|| format!("{} does not run", self.program.display()))?.success())
    }

    /// Copies the inputs that add most coverage to the committed ones.
    fn accept(&self, tree: &Tree) -> anyhow::Result<()> {
        let added = found::accept(self, &found::folder(tree, &self.name))?;
        println!("{}: {added} inputs added to fuzz/seeds/found", self.name);
        Ok(())
    }
}

/// The exit status of libFuzzer after an interruption from the keyboard.
const INTERRUPTED: i32 = 72;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_all_unless_named_and_known() {
        let all = || vec!["json".to_owned(), "rules".to_owned()];
        assert_eq!(select(all(), vec![]).unwrap(), all());
        assert_eq!(select(all(), vec!["rules".to_owned()]).unwrap(), ["rules"]);
        let error = select(all(), vec!["ruls".to_owned()]).unwrap_err();
        assert_eq!(error.to_string(), "unknown target `ruls`; known: json, rules");
    }
}
