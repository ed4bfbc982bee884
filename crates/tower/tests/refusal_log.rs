//! The refusal log in a real file: renamed, removed and not writable.

#![expect(clippy::unwrap_used, reason = "test helpers panic with a message")]

use hivemind_core::Timestamp;
use hivemind_tower::{LogSampling, Refusal, RefusalLog};
use std::num::NonZeroU32;
use std::path::Path;
use std::time::Duration;

/// The deadline of every wait.
const DEADLINE: Duration = Duration::from_secs(20);

fn refuse(log: &RefusalLog, address: Option<&str>, path: &str, at_ms: u64) {
    let address = address.map(|text| text.parse().unwrap());
    log.record(&Refusal { address, host: "example.org", path, at: Timestamp::from_millis(at_ms) });
}

/// The paths in a log file, after a flush.
fn paths(log: &RefusalLog, file: &Path) -> Vec<String> {
    assert!(log.flush(DEADLINE));
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "{text:?}");
    let fields =
        text.lines().filter_map(|line| line.split(' ').find_map(|field| field.strip_prefix("path=")));
    fields.map(str::to_owned).collect()
}

#[test]
fn refusal_lines_are_appended_to_existing_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("refusals.log");
    std::fs::write(&file, "2026-11-15 a line of old\n").unwrap();
    let log = RefusalLog::appending_to(&file).unwrap();
    refuse(&log, Some("203.0.113.50"), "/login", 1_794_769_200_123);
    drop(log);
    let expected = "2026-11-15 a line of old\n\
        2026-11-15T19:00:00.123Z RATE_LIMIT client_ip=203.0.113.50 host=example.org path=/login status=429\n";
    assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
}

#[test]
fn client_without_address_gets_no_log_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("refusals.log");
    let log = RefusalLog::appending_to(&file).unwrap();
    for _ in 0..100 {
        refuse(&log, None, "/", 1_000);
    }
    drop(log);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "");
}

/// Fails when the open file is kept after it was renamed.
#[test]
fn renamed_or_removed_log_is_reopened_without_loss() {
    let folder = tempfile::tempdir().unwrap();
    let [file, rotated] = ["refusals.log", "refusals.log.1"].map(|name| folder.path().join(name));
    let log = RefusalLog::appending_to(&file).unwrap();
    refuse(&log, Some("203.0.113.50"), "/before", 1_000);
    assert_eq!(paths(&log, &file), ["/before"]);
    std::fs::rename(&file, &rotated).unwrap();
    refuse(&log, Some("203.0.113.50"), "/after", 1_001);
    assert_eq!(paths(&log, &file), ["/after"]);
    assert_eq!(paths(&log, &rotated), ["/before"]);
    // As with logrotate's `create`: another file is at the path already.
    std::fs::rename(&file, &rotated).unwrap();
    std::fs::write(&file, "").unwrap();
    refuse(&log, Some("203.0.113.50"), "/created", 1_002);
    assert_eq!(paths(&log, &file), ["/created"]);
    std::fs::remove_file(&file).unwrap();
    refuse(&log, Some("203.0.113.50"), "/removed", 1_003);
    assert_eq!(paths(&log, &file), ["/removed"]);
    assert_eq!(log.lost(), 0);
}

#[test]
fn failed_lines_are_counted_and_next_line_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("logs");
    std::fs::create_dir(&inner).unwrap();
    let file = inner.join("refusals.log");
    let log = RefusalLog::appending_to(&file).unwrap();
    // A folder in place of the file: not even root can append to it.
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    for index in 0..5 {
        refuse(&log, Some("203.0.113.50"), "/lost", index);
    }
    assert!(log.flush(DEADLINE));
    assert_eq!(log.lost(), 5);
    std::fs::remove_dir(&file).unwrap();
    refuse(&log, Some("203.0.113.50"), "/again", 6);
    assert_eq!(paths(&log, &file), ["/again"]);
    assert_eq!(log.lost(), 5);
}

#[test]
fn log_open_error_names_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let error = RefusalLog::appending_to(folder.path().join("none/refusals.log")).unwrap_err().to_string();
    assert!(error.contains("none/refusals.log") && error.contains("create its folder"), "{error}");
}

#[test]
fn flood_logs_first_lines_and_their_left_out_count() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("refusals.log");
    let sampling = LogSampling::new(NonZeroU32::new(3).unwrap(), Duration::from_secs(60));
    let log = RefusalLog::appending_to(&file).unwrap().with_sampling(sampling);
    for index in 0..100_000 {
        refuse(&log, Some("2001:db8::1"), "/flood", 1_794_769_200_000 + index % 1_000);
    }
    refuse(&log, Some("2001:db8::2"), "/next", 1_794_769_260_000);
    drop(log);
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert!(lines[..3].iter().all(|line| line.ends_with("path=/flood status=429")), "{text}");
    let left_out = "2026-11-15T19:01:00.000Z RATE_LIMIT_LEFT_OUT client_ip=2001:db8::/64 lines=99997 since=2026-11-15T19:00:00.000Z";
    assert_eq!(lines[3], left_out);
    assert!(lines[4].ends_with("client_ip=2001:db8::/64 host=example.org path=/next status=429"), "{text}");
}

/// Fails without the line break after a failed write.
#[cfg(target_os = "linux")]
#[test]
fn line_after_partial_write_starts_on_a_new_line() {
    let folder = tempfile::tempdir().unwrap();
    let [link, file] = ["refusals.log", "real.log"].map(|name| folder.path().join(name));
    std::os::unix::fs::symlink("/dev/full", &link).unwrap();
    let log = RefusalLog::appending_to(&link).unwrap();
    refuse(&log, Some("203.0.113.50"), "/torn", 1);
    assert!(log.flush(DEADLINE));
    assert_eq!(log.lost(), 1);
    std::fs::write(&file, "2026-11-15T19:00:00.123Z RATE_LIM").unwrap();
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    refuse(&log, Some("203.0.113.50"), "/whole", 2);
    assert_eq!(paths(&log, &file), ["/whole"]);
    assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 2);
}

/// A pipe without a reader stands for the disk. Hangs when lines are queued by a call that waits.
#[cfg(target_os = "linux")]
#[test]
fn stalled_disk_does_not_block_requests() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::fs::File::options().read(true).write(true).open(&pipe).unwrap();
    let log = RefusalLog::appending_to(&pipe).unwrap();
    let log = log.with_sampling(LogSampling::default().most_per_second(NonZeroU32::MAX));
    // A pipe holds 64 KiB and the queue 1,024 lines.
    for client in 0..5_000_u32 {
        let address = std::net::Ipv4Addr::from_bits(client).to_string();
        refuse(&log, Some(&address), "/stalled", 1);
    }
    assert!(log.lost() > 2_000, "{}", log.lost());
    assert!(!log.flush(Duration::ZERO));
    drop(reader); // The pipe breaks, so dropping the log ends.
}

// Fails when the log writes to standard output without its lock, into the lines of other writers.
#[test]
fn stdout_line_waits_for_other_writers() {
    let log = RefusalLog::standard_output().unwrap();
    let writing = std::io::stdout().lock();
    refuse(&log, Some("203.0.113.50"), "/login", 1_794_769_200_123);
    assert!(!log.flush(Duration::from_millis(300)), "it was written in the middle of another line");
    drop(writing);
    assert!(log.flush(DEADLINE));
}
