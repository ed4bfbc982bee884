//! Resident memory as reported by the kernel. Each contender is measured in its own process, because an allocator does
//! not return all freed memory.

use std::process::Command;

/// Resident bytes of this process.
#[must_use]
pub fn bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

/// The memory that `fill` added. Its return value stays alive until the measurement.
pub fn added_by<T>(fill: impl FnOnce() -> T) -> u64 {
    let before = bytes();
    let filled = fill();
    let after = bytes();
    drop(std::hint::black_box(filled));
    after.saturating_sub(before)
}

/// Runs this program again with `arguments` and reads the number it prints.
#[must_use]
pub fn in_own_process(arguments: &[&str]) -> Option<u64> {
    let program = std::env::current_exe().ok()?;
    let output = Command::new(program).args(arguments).output().ok()?;
    String::from_utf8(output.stdout).ok()?.trim().parse().ok()
}
