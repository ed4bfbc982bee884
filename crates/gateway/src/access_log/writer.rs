//! Writer thread of the access log: formats lines, and writes many at once if many wait.

use super::{AccessLogEntry, AccessLogMessage, LoggedClient};
use crate::settings::LogTarget;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

/// Maximum bytes per write.
const LARGEST_WRITE: usize = 64 << 10;

pub(super) struct AccessLogWriter {
    sink: AccessLogSink,
    lost: Arc<AtomicU64>,
    reported: u64,
}

enum AccessLogSink {
    Stdout,
    File { path: PathBuf, file: Option<File> },
}

impl AccessLogWriter {
    pub(super) fn open(target: &LogTarget, lost: Arc<AtomicU64>) -> io::Result<Self> {
        let sink = match target {
            LogTarget::Stdout => AccessLogSink::Stdout,
            LogTarget::File(path) => AccessLogSink::File { path: path.clone(), file: Some(open(path)?) },
        };
        Ok(Self { sink, lost, reported: 0 })
    }

    pub(super) fn run(mut self, messages: &Receiver<AccessLogMessage>) {
        let mut text = Vec::with_capacity(LARGEST_WRITE);
        while let Ok(message) = messages.recv() {
            let (mut lines, mut next) = (0, Some(message));
            let mut flushed = None;
            while let Some(message) = next.take() {
                match message {
                    AccessLogMessage::Line(entry) => {
                        lines += 1;
                        // Writing to memory cannot fail.
                        let _ = write(&mut text, &entry);
                    }
                    AccessLogMessage::Flush(done) => flushed = Some(done),
                }
                if text.len() < LARGEST_WRITE && flushed.is_none() {
                    next = messages.try_recv().ok();
                }
            }
            let written = self.sink.write(&text);
            text.clear();
            if written.is_err() {
                self.lost.fetch_add(lines, Ordering::Relaxed);
            }
            self.warn(written.err().as_ref());
            // The caller may have stopped waiting.
            let _ = flushed.map(|done| done.send(()));
        }
    }

    /// Reports losses when their number has doubled, so that a full disk does not flood the log.
    fn warn(&mut self, cause: Option<&io::Error>) {
        let lost = self.lost.load(Ordering::Relaxed);
        if lost > self.reported.saturating_mul(2) {
            let cause = cause.map_or_else(|| "the disk is too slow".to_owned(), ToString::to_string);
            tracing::warn!(lost, cause, "access log lines were lost");
            self.reported = lost;
        }
    }
}

impl AccessLogSink {
    fn write(&mut self, text: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout => {
                // The refusal log takes the same lock, so lines do not mix.
                let mut out = io::stdout().lock();
                out.write_all(text)?;
                out.flush()
            }
            Self::File { path, file } => {
                let mut current = match file.take().filter(|file| is_at(path, file)) {
                    Some(file) => file,
                    None => open(path)?,
                };
                let written = current.write_all(text);
                *file = Some(current);
                written
            }
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    // The log shows which client requests what, so it is not world-readable.
    OpenOptions::new().append(true).create(true).mode(0o640).open(path)
}

/// Whether the open file is still at this path.
fn is_at(path: &Path, file: &File) -> bool {
    match (std::fs::metadata(path), file.metadata()) {
        (Ok(there), Ok(open)) => (there.dev(), there.ino()) == (open.dev(), open.ino()),
        _ => false,
    }
}

/// Writes one JSON line.
fn write(out: &mut Vec<u8>, entry: &AccessLogEntry) -> io::Result<()> {
    let nanos = i128::from(entry.at.as_nanos());
    let at = jiff::Timestamp::from_nanosecond(nanos).unwrap_or_default();
    let text = |value: Option<&http::HeaderValue>| {
        value.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let client = match &entry.client {
        LoggedClient::Client(client) => client.name().to_owned(),
        LoggedClient::UpstreamAddress(address) => format!("ip:{address}"),
    };
    write!(out, "{{\"time\":\"{at:.3}\",\"client\":")?;
    serde_json::to_writer(&mut *out, &client)?;
    out.extend_from_slice(b",\"method\":");
    serde_json::to_writer(&mut *out, &entry.method.as_ref().map(http::Method::as_str))?;
    out.extend_from_slice(b",\"host\":");
    serde_json::to_writer(&mut *out, &text(entry.host.as_ref()))?;
    out.extend_from_slice(b",\"path\":");
    serde_json::to_writer(&mut *out, &entry.path)?;
    let took_ms = entry.took.as_secs_f64() * 1e3;
    write!(
        out,
        ",\"status\":{},\"bytes\":{},\"duration_ms\":{took_ms:.3},\"service\":",
        entry.status.as_u16(),
        entry.bytes
    )?;
    serde_json::to_writer(&mut *out, &entry.service)?;
    out.extend_from_slice(b",\"upstream\":");
    serde_json::to_writer(&mut *out, &text(entry.upstream.as_ref()))?;
    writeln!(out, ",\"limited\":{}}}", entry.is_limited)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hivemind_core::Timestamp;
    use http::{HeaderValue, Method, StatusCode};
    use std::time::Duration;

    #[test]
    fn access_log_line_is_json_for_any_input() {
        let entry = AccessLogEntry {
            at: Timestamp::from_millis(1_794_800_000_123),
            took: Duration::from_micros(1_500),
            client: LoggedClient::UpstreamAddress([203, 0, 113, 9].into()),
            method: Some(Method::GET),
            host: Some(HeaderValue::from_bytes(b"a\"b\xff").unwrap()),
            path: Some("/\"\\x".into()),
            status: StatusCode::OK,
            bytes: 7,
            service: Some("app".into()),
            upstream: None,
            is_limited: false,
        };
        let mut line = Vec::new();
        write(&mut line, &entry).unwrap();
        let text = String::from_utf8(line).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["client"], "ip:203.0.113.9");
        assert_eq!(value["path"], "/\"\\x");
        assert_eq!(value["duration_ms"], 1.5);
        assert_eq!(value["time"], "2026-11-16T03:33:20.123Z");
        assert!(text.ends_with("}\n") && text.matches('\n').count() == 1, "{text}");
    }

    /// Fails when the renamed file is written to forever.
    #[test]
    fn renamed_access_log_continues_in_a_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let (path, moved) = (folder.path().join("access"), folder.path().join("access.1"));
        let mut writer = AccessLogWriter::open(&LogTarget::File(path.clone()), Arc::default()).unwrap();
        writer.sink.write(b"one\n").unwrap();
        std::fs::rename(&path, &moved).unwrap();
        writer.sink.write(b"two\n").unwrap();
        assert_eq!(std::fs::read_to_string(moved).unwrap(), "one\n");
        assert_eq!(std::fs::read_to_string(path).unwrap(), "two\n");
    }
}
