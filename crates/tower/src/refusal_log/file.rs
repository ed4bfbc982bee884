//! A file that lines are appended to, by a thread of its own: a disk that stalls holds
//! up no request. Before each line it looks whether the file is still the one at its
//! path, so logrotate may rename it without a signal. What cannot be written is counted
//! and warned of, and what comes after it begins on a line of its own.

use hivemind_core::Timestamp;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// How many lines may wait for the disk.
pub(super) const QUEUE: usize = 1_024;
/// How long between two warnings about lines that were lost.
const BETWEEN_WARNINGS: Duration = Duration::from_secs(60);
/// How long the end of a log waits for its disk.
pub(super) const LAST_WAIT: Duration = Duration::from_secs(2);

/// Why a log of refusals could not be begun.
///
/// ```
/// use hivemind_tower::RefusalLog;
///
/// let error = RefusalLog::appending_to("/nowhere/at/all").unwrap_err();
/// assert!(error.to_string().starts_with("cannot append to `/nowhere/at/all`; make its folder"));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The file cannot be appended to.
    #[error("cannot append to `{}`; make its folder, and let this process write there: {cause}", .path.display())]
    Open {
        /// Where it was to be.
        path: PathBuf,
        /// What the system says.
        #[source]
        cause: io::Error,
    },
    /// There is no thread to write with.
    #[error("cannot start the thread that writes refusals; allow this process one more: {0}")]
    Thread(#[source] io::Error),
}

enum Message {
    Line { text: String, at: Timestamp },
    Flush(SyncSender<()>),
}

/// The end of the queue that requests hold.
#[derive(Debug)]
pub(super) struct LogFile {
    queue: Option<SyncSender<Message>>,
    /// Disconnected when the thread has ended.
    ended: std::sync::Mutex<Receiver<()>>,
    lost: Arc<AtomicU64>,
}

impl LogFile {
    /// The file at this path; none: standard output.
    pub(super) fn open(path: Option<PathBuf>) -> Result<Self, LogError> {
        let lost = Arc::new(AtomicU64::new(0));
        let writer = match Writer::open(path.clone(), Arc::clone(&lost)) {
            Ok(writer) => writer,
            Err(cause) => {
                let path = path.unwrap_or_else(|| PathBuf::from("standard output"));
                return Err(LogError::Open { path, cause });
            }
        };
        let (queue, messages) = sync_channel(QUEUE);
        let (alive, ended) = sync_channel::<()>(0);
        let run = move || {
            writer.run(&messages);
            drop(alive);
        };
        let thread = std::thread::Builder::new().name("refusal-log".into());
        thread.spawn(run).map_err(LogError::Thread)?;
        Ok(Self { queue: Some(queue), ended: std::sync::Mutex::new(ended), lost })
    }

    /// Hands a line over. It never waits: with the queue full, the line is lost and counted.
    pub(super) fn append(&self, text: String, at: Timestamp) {
        let handed_over = self.queue.as_ref().is_some_and(|q| q.try_send(Message::Line { text, at }).is_ok());
        if !handed_over {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Waits until what was handed over is written, and says whether it is. Not if the
    /// queue is full: then the disk does not answer anyway.
    pub(super) fn flush(&self, most: Duration) -> bool {
        let (done, flushed) = sync_channel(1);
        let asked = self.queue.as_ref().is_some_and(|queue| queue.try_send(Message::Flush(done)).is_ok());
        asked && flushed.recv_timeout(most).is_ok()
    }
}

impl Drop for LogFile {
    fn drop(&mut self) {
        drop(self.queue.take());
        let Ok(ended) = self.ended.get_mut() else { return };
        if ended.recv_timeout(LAST_WAIT) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the last refusals are not written yet: the disk does not answer");
        }
    }
}

/// The end of the queue that the thread holds.
struct Writer {
    sink: Sink,
    /// Whether a line may have been written in part.
    is_torn: bool,
    lost: Arc<AtomicU64>,
    warned: Option<Warned>,
}

enum Sink {
    /// Written to under the process's own lock, a whole line at a time: whoever else writes there so never finds
    /// itself in the middle of one.
    Stdout,
    File {
        path: PathBuf,
        file: Option<File>,
    },
}

#[derive(Clone, Copy)]
struct Warned {
    at: Timestamp,
    lost: u64,
}

impl Writer {
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
                    self.warn(at, failed.as_ref());
                }
                // Whoever asked may have given up waiting.
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

    /// Says how many lines were lost: at the first, and then once in a while.
    fn warn(&mut self, now: Timestamp, cause: Option<&io::Error>) {
        let lost = self.lost.load(Ordering::Relaxed);
        let is_news =
            self.warned.map_or(lost > 0, |last| lost > last.lost && now.since(last.at) >= BETWEEN_WARNINGS);
        if is_news {
            let cause = cause.map_or_else(|| "the disk is too slow".to_owned(), ToString::to_string);
            let path = match &self.sink {
                Sink::Stdout => Path::new("standard output").display(),
                Sink::File { path, .. } => path.display(),
            };
            tracing::warn!(%path, lost, cause, "refusals are missing in the log; fail2ban does not see them");
            self.warned = Some(Warned { at: now, lost });
        }
    }
}

impl Sink {
    /// One call for the line, so that lines of several processes do not mix.
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
    // It tells who visits what: not for everybody on the machine.
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

/// Elsewhere an open file cannot be renamed: that there is one is enough.
#[cfg(not(unix))]
fn is_same(_: &Metadata, _: &Metadata) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails with every loss warned of.
    #[test]
    fn lost_lines_are_warned_of_first_and_then_once_a_minute() {
        let folder = tempfile::tempdir().unwrap();
        let events = folder.path().join("events");
        let sink = Arc::new(File::create(&events).unwrap());
        let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(sink).finish();
        let lost = Arc::new(AtomicU64::new(0));
        let mut writer = Writer::open(Some(folder.path().join("log")), Arc::clone(&lost)).unwrap();
        tracing::subscriber::with_default(subscriber, || {
            for (second, losses, warnings) in
                [(0, 0, 0), (1, 1, 1), (2, 1, 1), (60, 500, 1), (61, 0, 2), (200, 0, 2), (201, 1, 3)]
            {
                lost.fetch_add(losses, Ordering::Relaxed);
                writer.warn(Timestamp::from_millis(second * 1_000), None);
                let told = std::fs::read_to_string(&events).unwrap();
                assert_eq!(told.lines().count(), warnings, "at {second} s: {told}");
            }
        });
        assert!(std::fs::read_to_string(&events).unwrap().contains("lost=503"));
    }
}
