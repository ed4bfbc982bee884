//! Refusal log for fail2ban: one line per refusal, exactly
//! `<time> RATE_LIMIT client_ip=<address> host=<host> path=<path> status=429`.
//!
//! Lines go to the tracing target [`RefusalLog::TARGET`], whose default format fail2ban can parse, and optionally
//! to a file. Sampling writes each client's first lines of a window and then their number, and bounds the lines
//! per second of all clients. Invariant: the address of a line is never a guess. A refusal without an address has
//! no line in the file, and its event does not match the fail2ban filter.

mod file;
mod line;
mod line_rate;
mod log_sampling;
mod sampler;
mod security;

pub use file::LogError;
pub use log_sampling::LogSampling;
pub(crate) use security::LimitExceeded;

use file::LogFile;
use hivemind_core::{ClientIp, Timestamp};
use sampler::{LeftOutLines, LogSampler, LogSubject};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The client that lines are counted for. All clients without an address count as one.
type Key = Option<ClientIp>;

/// A refused request in the log.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_tower::{Refusal, RefusalLog};
///
/// let at = Timestamp::from_millis(1_700_000_000_000);
/// let refusal = Refusal { address: Some("203.0.113.9".parse()?), host: "example.org", path: "/login", at };
/// RefusalLog::events().record(&refusal);
/// # Ok::<(), hivemind_core::AddressError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Refusal<'a> {
    /// The client's address; without one, fail2ban gets no line.
    pub address: Option<ClientIp>,
    /// The requested host: the `Host` header or the authority.
    pub host: &'a str,
    /// The path without its query, which may contain secrets.
    pub path: &'a str,
    /// When it was refused.
    pub at: Timestamp,
}

/// The refusal log, for fail2ban.
///
/// Share one log between all limiters of a process in an `Arc`, because it counts lines per client. It samples
/// the events of the target `hivemind::security` too.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_tower::{Refusal, RefusalLog};
/// use std::time::Duration;
///
/// let folder = tempfile::tempdir()?;
/// let log = RefusalLog::appending_to(folder.path().join("refusals"))?;
/// let address = Some("203.0.113.9".parse()?);
/// log.record(&Refusal { address, host: "example.org", path: "/login", at: Timestamp::EPOCH });
/// assert!(log.flush(Duration::from_secs(60)) && log.lost() == 0);
/// let line = "1970-01-01T00:00:00.000Z RATE_LIMIT client_ip=203.0.113.9 host=example.org path=/login status=429\n";
/// assert_eq!(std::fs::read_to_string(folder.path().join("refusals"))?, line);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RefusalLog {
    samples: LogSampler,
    security: LogSampler,
    file: Option<LogFile>,
}

impl RefusalLog {
    /// The tracing target of the lines, at level INFO.
    ///
    /// ```
    /// # use hivemind_tower::RefusalLog;
    /// assert_eq!(RefusalLog::TARGET, "hivemind::rate_limit"); // For the filter of a subscriber.
    /// ```
    pub const TARGET: &'static str = "hivemind::rate_limit";

    /// Writes refusals as tracing events only.
    ///
    /// ```
    /// # use hivemind_tower::RefusalLog;
    /// assert_eq!(RefusalLog::events().lost(), 0); // Without a file no line can be lost.
    /// ```
    #[must_use]
    pub fn events() -> Self {
        let samples = || LogSampler::new(LogSampling::default());
        Self { samples: samples(), security: samples(), file: None }
    }

    /// Writes refusals as tracing events and appends them to this file, which may be renamed at any time. Starts
    /// the writer thread.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened for appending, or the thread cannot be started.
    pub fn appending_to(path: impl Into<PathBuf>) -> Result<Self, LogError> {
        Self::with_file(Some(path.into()))
    }

    /// Writes refusals as tracing events and to standard output. Starts the writer thread.
    ///
    /// ```
    /// # use hivemind_tower::RefusalLog;
    /// let log = RefusalLog::standard_output()?; // For a container whose output is collected.
    /// # Ok::<(), hivemind_tower::error::LogError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If standard output is not available, or the thread cannot be started.
    pub fn standard_output() -> Result<Self, LogError> {
        Self::with_file(None)
    }

    fn with_file(path: Option<PathBuf>) -> Result<Self, LogError> {
        let mut log = Self::events();
        log.file = Some(LogFile::open(path)?);
        Ok(log)
    }

    /// Changes the sampling, for a jail with another `maxretry` or `findtime`.
    ///
    /// ```
    /// # use hivemind_tower::{LogSampling, RefusalLog};
    /// let log = RefusalLog::events().with_sampling(LogSampling::default());
    /// ```
    #[must_use]
    pub fn with_sampling(mut self, sampling: LogSampling) -> Self {
        self.samples = LogSampler::new(sampling);
        self.security = LogSampler::new(sampling);
        self
    }

    /// Writes a refusal, or counts it if this client has enough lines already. It never waits for a disk.
    pub fn record(&self, refusal: &Refusal<'_>) {
        if self.file.is_none() && !tracing::enabled!(target: RefusalLog::TARGET, tracing::Level::INFO) {
            return;
        }
        let sample = self.samples.record(refusal.address, refusal.at);
        for left_out in &sample.left_out {
            self.log_left_out(left_out, refusal.at);
        }
        if sample.is_written {
            self.write(LogSubject::Client(refusal.address), &line::refusal(refusal), refusal.at);
        }
    }

    /// The number of lines that are missing in the file, because writing failed or the disk was too slow.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.file.as_ref().map_or(0, LogFile::lost)
    }

    /// Waits until all lines are in the file, at most for `timeout`. Returns whether they are. It blocks, so it is
    /// meant for tests and for the shutdown of a process.
    #[must_use]
    pub fn flush(&self, timeout: Duration) -> bool {
        self.file.as_ref().is_none_or(|file| file.flush(timeout))
    }

    fn log_left_out(&self, left_out: &LeftOutLines, at: Timestamp) {
        self.write(left_out.subject, &line::left_out(left_out), at);
    }

    fn write(&self, subject: LogSubject, message: &str, at: Timestamp) {
        // Without a parent span: its name and fields would precede the target, which the filter does not expect.
        tracing::info!(target: RefusalLog::TARGET, parent: None, "{message}");
        if let Some(file) = self.file.as_ref().filter(|_| subject != LogSubject::Client(None)) {
            file.append(line::with_time(at, message), at);
        }
    }
}

/// [`RefusalLog::events`].
impl Default for RefusalLog {
    fn default() -> Self {
        Self::events()
    }
}

/// Reports the lines that were left out and not reported yet.
impl Drop for RefusalLog {
    fn drop(&mut self) {
        self.security.drain().iter().for_each(security::log_left_out);
        for chunk in self.samples.drain().chunks(file::QUEUE_LINES / 2) {
            for left_out in chunk {
                // Without a clock here, the start of the window has to do.
                self.log_left_out(left_out, left_out.since);
            }
            // Flushing keeps the queue from overflowing. A stalled disk costs this wait once.
            if !self.flush(file::SHUTDOWN_WAIT) {
                break;
            }
        }
    }
}

impl fmt::Debug for RefusalLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RefusalLog").field("file", &self.file).finish_non_exhaustive()
    }
}
