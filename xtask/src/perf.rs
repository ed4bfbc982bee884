//! Performance gate: instructions per iteration of the cases of `benches/perf`, compared with `xtask/perf.txt`.
//!
//! Instructions and not time: they repeat exactly on a busy machine. They depend on the compiler, so the committed
//! counts name theirs, and another compiler reports without a verdict.

mod callgrind;
mod compare;
mod counts;

use crate::tree::Tree;
use anyhow::{Context, ensure};
use callgrind::Callgrind;
use compare::Comparison;
use counts::{Counts, FILE};
use std::path::PathBuf;
use std::process::Command;

const PACKAGE: &str = "hivemind-perf";

/// What to print, and whether no count rose by more than the tolerance.
pub(crate) struct Outcome {
    pub(crate) report: String,
    pub(crate) passed: bool,
}

/// Counts all cases and compares them with the committed counts; `accept` writes counts that are lower, new or of
/// another compiler.
pub(crate) fn run(tree: &Tree, accept: bool) -> anyhow::Result<Outcome> {
    let path = tree.root().join(FILE);
    let mut committed = Counts::parse(&std::fs::read_to_string(&path).context(FILE)?)?;
    let callgrind = Callgrind::new(build(tree)?, tree.root().join("target/callgrind"))?;
    let now = Counts { compiler: compiler()?, by_case: callgrind.count_all()? };
    if accept {
        committed = Comparison { committed: &committed, now: &now }.accepted();
        std::fs::write(&path, committed.to_string()).with_context(|| format!("writing {FILE}"))?;
    }
    let comparison = Comparison { committed: &committed, now: &now };
    Ok(Outcome { report: comparison.report(), passed: comparison.passed() })
}

/// Builds the measured program and returns its path.
fn build(tree: &Tree) -> anyhow::Result<PathBuf> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--locked", "--profile", "perf", "--package", PACKAGE, "--target-dir", "target"]);
    // Flags of the caller would change the code.
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS").current_dir(tree.root());
    let status = cargo.status().context("cargo does not run")?;
    ensure!(status.success(), "{PACKAGE} does not build");
    Ok(tree.root().join("target/perf").join(PACKAGE))
}

/// The compiler's version and target.
fn compiler() -> anyhow::Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("rustc does not run")?;
    let text = String::from_utf8(output.stdout)?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("unknown");
    Ok(format!("rustc {}, {}", field("release: "), field("host: ")))
}
