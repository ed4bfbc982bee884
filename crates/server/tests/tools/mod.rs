//! What tests need that Rust does not bring: it is shared by all tests that need a program.

/// Whether a program may be missing, and the test that needs it be left out. Where `./test` and CI run, a test that is skipped proves
/// nothing.
pub(crate) fn may_be_missing() -> bool {
    std::env::var_os("CI").is_none_or(|ci| ci != "true")
}
