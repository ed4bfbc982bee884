//! Build of the fuzz targets: the flags of `cargo fuzz`, without it.

use crate::tree::Tree;
use anyhow::{Context, ensure};
use std::path::PathBuf;
use std::process::Command;

/// Coverage instrumentation that libFuzzer reads, and `AddressSanitizer`. `cfg(fuzzing)` exports the functions that the
/// targets call.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
                     -Cllvm-args=-sanitizer-coverage-trace-compares -Zsanitizer=address";

/// Targets whose names begin with this need only the mesh, without the feature `service` of the fuzz package.
const MESH: &str = "mesh_";

/// Builds the targets and returns the folder of their programs.
pub(super) fn build(tree: &Tree, targets: &[String]) -> anyhow::Result<PathBuf> {
    let host = host()?;
    // The sanitizer must not reach build scripts, so the target is named although it is the host.
    let mut cargo = nightly("cargo");
    cargo
        .args(["build", "--release", "--locked", "--manifest-path", "fuzz/Cargo.toml", "--target", &host])
        .args(["--target-dir", "target/fuzz/build"])
        .args(targets.iter().flat_map(|target| ["--bin", target]))
        .args(targets.iter().all(|target| target.starts_with(MESH)).then_some("--no-default-features"))
        .env("RUSTFLAGS", FLAGS)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .current_dir(tree.root());
    let status = cargo.status().context("rustup does not run")?;
    ensure!(status.success(), "the fuzz targets do not build");
    Ok(tree.root().join("target/fuzz/build").join(host).join("release"))
}

fn host() -> anyhow::Result<String> {
    let output = nightly("rustc").arg("-vV").output().context("rustup does not run")?;
    ensure!(
        output.status.success(),
        "no nightly compiler; install it with: rustup toolchain install nightly"
    );
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc names no host")?.to_owned())
}

/// Sanitizers need a nightly compiler.
fn nightly(program: &str) -> Command {
    let mut command = Command::new("rustup");
    command.args(["run", "nightly", program]);
    command
}
