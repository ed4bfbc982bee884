//! The rules of all fleets, and their limits in numbers.

use crate::tally::Tally;

/// Limits of a thousand per second, of a few per minute, and one that is never reached.
pub(crate) const RULES: &str = "
- {key: fast, rate_limit: {unit: second, requests_per_unit: 1000}}
- {key: five, rate_limit: {unit: minute, requests_per_unit: 5}}
- {key: ten, rate_limit: {unit: minute, requests_per_unit: 10}}
- {key: few, rate_limit: {unit: second, requests_per_unit: 2}}
- {key: wide, rate_limit: {unit: day, requests_per_unit: 4000000000}}
";

/// The limit of `fast`.
pub(crate) const FAST: u64 = 1_000;
/// Three times the limit.
pub(crate) const OFFERED: u32 = 3_000;

/// The most that a small limit may admit while its owner is unreachable: a share for each of the others.
pub(crate) fn most_of_a_small_limit(limit: u64, members: u64) -> u64 {
    limit + (members - 1) * limit.div_ceil(members)
}

/// Whether the long tier runs.
pub(crate) fn is_long() -> bool {
    std::env::var_os("HIVEMIND_LONG").is_some_and(|value| value == "1")
}

/// Asserts that no window admitted more than the limit of `fast`. Late answers belong to this window or to the
/// next, in which nothing was sent: so they are at most one limit too.
pub(crate) fn assert_no_window_above_limit(tally: &Tally) {
    for (number, window) in tally.windows() {
        if window.admitted > FAST || window.late > FAST {
            fail_over_limit(&format!("window {number} is above {FAST}: {window:?} in {}", tally.summary()));
        }
    }
}

/// Fails and leaves a file: a retry of the test does not undo that a limit was exceeded, and `./test` fails on
/// the file.
pub(crate) fn fail_over_limit(what: &str) -> ! {
    let test = std::thread::current().name().unwrap_or("a test").replace("::", "-");
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-logs/over-admission");
    let line = format!("{test}: {what}\n");
    let recorded = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(folder.join(&test), line));
    panic!("{what} (recorded in {}: {recorded:?})", folder.display());
}

/// The admitted percentage of what could be admitted: per window the offered requests, at most the limit.
pub(crate) fn percent_admitted(tally: &Tally) -> f64 {
    let (mut admitted, mut admissible) = (0, 0);
    for window in tally.windows().values() {
        admitted += (window.admitted + window.late).min(FAST);
        admissible += (window.offered - window.failed).min(FAST);
    }
    #[expect(clippy::cast_precision_loss, reason = "some thousands")]
    let share = admitted as f64 / admissible as f64;
    share * 100.0
}
