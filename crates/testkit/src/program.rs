//! Programs and files that tests use: the binary under test, installed tools, paths in the repository.

use std::path::{Path, PathBuf};

/// The binary `hivemind` of this build. Cargo and nextest set its path in the environment of a test; without them it lies
/// above the folder of the test's own binary.
pub fn binary() -> PathBuf {
    let by_runner =
        ["CARGO_BIN_EXE_hivemind", "NEXTEST_BIN_EXE_hivemind"].into_iter().find_map(std::env::var_os);
    by_runner.map_or_else(|| std::env::current_exe().unwrap().join("../../hivemind"), PathBuf::from)
}

/// A path in this repository, from its root.
pub fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Whether a program may be missing, and the test that needs it be skipped. `./test` and CI install every program, so
/// there a missing one is a failure.
pub fn may_be_missing() -> bool {
    std::env::var_os("CI").is_none_or(|ci| ci != "true")
}
