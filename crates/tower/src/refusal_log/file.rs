//! Log file: lines are appended by a thread of its own, so that a stalled disk does not block requests.
//!
//! Before each line the thread checks whether the open file is still the one at its path, so logrotate can rename
//! it without a signal. Lost lines are counted and logged, and the line after a failed write starts on a new line.

use hivemind_core::Timestamp;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// The maximum of lines that wait for the disk.
pub(super) const QUEUE_LINES: usize = 1_024;
/// The interval between warnings about lost lines.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);
/// How long dropping a log waits for the disk.
pub(super) const SHUTDOWN_WAIT: Duration = Duration::from_secs(2);

/// Why a refusal log cannot be opened.
///
/// ```
/// use hivemind_tower::RefusalLog;
///
/// let error = RefusalLog::appending_to("/nowhere/at/all").unwrap_err();
/// assert!(error.to_string().starts_with("cannot append to `/nowhere/at/all`; create its folder"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The file cannot be opened for appending.
    #[error("cannot append to `{}`; create its folder and let this process write there: {cause}", .path.display())]
    Open {
        /// The path of the file.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        cause: io::Error,
    },
    /// The writer thread cannot be started.
    #[error("cannot start the writer thread of the refusal log; allow this process one more thread: {0}")]
    Thread(#[source] io::Error),
}

enum Message {
    Line { text: String, at: Timestamp },
    Flush(SyncSender<()>),
}

/// The sending end of the queue.
#[derive(Debug)]
pub(super) struct LogFile {
    queue: Option<SyncSender<Message>>,
    /// Disconnected when the thread has ended.
    ended: std::sync::Mutex<Receiver<()>>,
    lost: Arc<AtomicU64>,
}

impl LogFile {
    /// Opens the file at this path, or standard output for `None`.
    pub(super) fn open(path: Option<PathBuf>) -> Result<Self, LogError> {
        let lost = Arc::new(AtomicU64::new(0));
        let writer = match LogWriter::open(path.clone(), Arc::clone(&lost)) {
            Ok(writer) => writer,
            Err(cause) => {
                let path = path.unwrap_or_else(|| PathBuf::from("standard output"));
                return Err(LogError::Open { path, cause });
            }
        };
        let (queue, messages) = sync_channel(QUEUE_LINES);
        let (alive, ended) = sync_channel::<()>(0);
        let run = move || {
            writer.run(&messages);
            drop(alive);
        };
        let thread = std::thread::Builder::new().name("refusal-log".into());
        thread.spawn(run).map_err(LogError::Thread)?;
        Ok(Self { queue: Some(queue), ended: std::sync::Mutex::new(ended), lost })
    }

    /// Queues a line. It never waits: if the queue is full, the line is lost and counted.
    pub(super) fn append(&self, text: String, at: Timestamp) {
        let is_queued = self.queue.as_ref().is_some_and(|q| q.try_send(Message::Line { text, at }).is_ok());
        if !is_queued {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Waits until the queued lines are written, and returns whether they are. It fails immediately if the queue
    /// is full, because the disk is stalled then.
    pub(super) fn flush(&self, timeout: Duration) -> bool {
        let (done, flushed) = sync_channel(1);
        let is_requested =
            self.queue.as_ref().is_some_and(|queue| queue.try_send(Message::Flush(done)).is_ok());
        is_requested && flushed.recv_timeout(timeout).is_ok()
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        drop(self.queue.take());
        let Ok(ended) = self.ended.get_mut() else { return };
        if ended.recv_timeout(SHUTDOWN_WAIT) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("refusal log closed with unwritten lines; the disk does not respond");
        }
    }
}

/// The receiving end of the queue, in the writer thread.
struct LogWriter {
    sink: Sink,
    /// Whether the last line may be incomplete.
    is_torn: bool,
    lost: Arc<AtomicU64>,
    warned: Option<LossWarning>,
}

enum Sink {
    /// Written under the process's own lock, one whole line at a time, so that lines of other writers in this
    /// process do not mix with it.
    Stdout,
    File {
        path: PathBuf,
        file: Option<File>,
    },
}

#[derive(Clone, Copy)]
struct LossWarning {
    at: Timestamp,
    lost: u64,
}

impl LogWriter {
    fn open(path: Option<PathBuf>, lost: Arc<AtomicU64>) -> io::Result<Self> {
        let sink = match path {
            None => Sink::Stdout,
            Some(path) => Sink::File { file: Some(open(&path)?), path },
        };
        Ok(Self { sink, is_torn: false, lost, warned: None })
    }

    fn run(mut self, messages: &Receiver<Message>) {
        for message in messages {
            match message {
                Message::Line { text, at } => {
                    let failed = self.write(text).err();
                    if failed.is_some() {
                        self.lost.fetch_add(1, Ordering::Relaxed);
                    }
                    self.warn_of_losses(at, failed.as_ref());
                }
                // The requester may have timed out.
                Message::Flush(done) => drop(done.send(())),
            }
        }
    }

    fn write(&mut self, mut line: String) -> io::Result<()> {
        if self.is_torn {
            line.insert(0, '\n');
        }
        let written = self.sink.write(line.as_bytes());
        self.is_torn = written.is_err();
        written
    }

    /// Logs the number of lost lines: at the first loss, and then at most once per interval.
    fn warn_of_losses(&mut self, now: Timestamp, cause: Option<&io::Error>) {
        let lost = self.lost.load(Ordering::Relaxed);
        let is_due =
            self.warned.map_or(lost > 0, |last| lost > last.lost && now.since(last.at) >= WARNING_INTERVAL);
        if is_due {
            let cause = cause.map_or_else(|| "the disk is too slow".to_owned(), ToString::to_string);
            let path = match &self.sink {
                Sink::Stdout => Path::new("standard output").display(),
                Sink::File { path, .. } => path.display(),
            };
            tracing::warn!(%path, lost, cause, "refusal lines lost; fail2ban does not see these refusals");
            self.warned = Some(LossWarning { at: now, lost });
        }
    }
}

impl Sink {
    /// Writes a line in one call, so that lines of several processes do not mix.
    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            Self::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(line)?;
                out.flush()
            }
            Self::File { path, file } => {
                let mut current = match file.take().filter(|file| is_at(path, file)) {
                    Some(file) => file,
                    None => open(path)?,
                };
                let written = current.write_all(line);
                *file = Some(current);
                written
            }
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    // The lines are personal data: not readable for all users of the machine.
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o640);
    options.open(path)
}

/// Whether the file at this path is the one that is open.
fn is_at(path: &Path, file: &File) -> bool {
    match (std::fs::metadata(path), file.metadata()) {
        (Ok(there), Ok(open)) => is_same(&there, &open),
        _ => false,
    }
}

#[cfg(unix)]
fn is_same(one: &Metadata, other: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (one.dev(), one.ino()) == (other.dev(), other.ino())
}

/// On other systems an open file cannot be renamed, so any file at the path is the same.
#[cfg(not(unix))]
fn is_same(_: &Metadata, _: &Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails when each loss is logged.
    #[test]
    fn lost_lines_warn_first_and_then_once_a_minute() {
        let folder = tempfile::tempdir().unwrap();
        let events = folder.path().join("events");
        let sink = Arc::new(File::create(&events).unwrap());
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(sink).finish();
        let lost = Arc::new(AtomicU64::new(0));
        let mut writer = LogWriter::open(Some(folder.path().join("log")), Arc::clone(&lost)).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            for (second, losses, warnings) in
                [(0, 0, 0), (1, 1, 1), (2, 1, 1), (60, 500, 1), (61, 0, 2), (200, 0, 2), (201, 1, 3)]
            {
                lost.fetch_add(losses, Ordering::Relaxed);
                writer.warn_of_losses(Timestamp::from_millis(second * 1_000), None);
                let logged = std::fs::read_to_string(&events).unwrap();
                assert_eq!(logged.lines().count(), warnings, "at {second} s: {logged}");
            }
        });
        assert!(std::fs::read_to_string(&events).unwrap().contains("lost=503"));
    }
}
