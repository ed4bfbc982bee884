//! The log of refusals, for fail2ban: one line for each, exactly
//! `<time> RATE_LIMIT client_ip=<address> host=<host> path=<path> status=429`.
//!
//! It goes to the tracing target [`RefusalLog::TARGET`], whose usual format fail2ban
//! reads too, and to a file if one is given. Each client's first lines of a window are
//! written, then their number, and of all clients together so many a second. Invariant: the address of a line is never a guess; a
//! client without one has no line in the file, and one that fail2ban cannot match among
//! the events.

mod file;
mod line;
mod log_sampling;
mod per_second;
mod sample;
mod security;

pub use file::LogError;
pub use log_sampling::LogSampling;
pub(crate) use security::Exceeded;

use file::LogFile;
use hivemind_core::{ClientIp, Timestamp};
use sample::{LeftOut, Samples, Whose};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Whom lines are counted for; those without an address are one.
type Key = Option<ClientIp>;

/// A refused request, as the log tells it.
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
    /// The client's address; without one fail2ban is told nothing.
    pub address: Option<ClientIp>,
    /// What the client called this server: the `Host` header or the authority.
    pub host: &'a str,
    /// The path without its query, which may hold secrets.
    pub path: &'a str,
    /// When it was refused.
    pub at: Timestamp,
}

/// Where refusals are told to fail2ban.
///
/// Keep one for all services of a process, in an `Arc` if there are several limiters: clients are
/// counted in it. The events on `hivemind::security` are sampled by it too.
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
    samples: Samples,
    security: Samples,
    file: Option<LogFile>,
}

impl RefusalLog {
    /// The tracing target that lines go to, at level INFO.
    ///
    /// ```
    /// # use hivemind_tower::RefusalLog;
    /// assert_eq!(RefusalLog::TARGET, "hivemind::rate_limit"); // What a subscriber filters by.
    /// ```
    pub const TARGET: &'static str = "hivemind::rate_limit";

    /// Tells refusals as tracing events alone.
    ///
    /// ```
    /// # use hivemind_tower::RefusalLog;
    /// assert_eq!(RefusalLog::events().lost(), 0); // There is no file to lose a line of.
    /// ```
    #[must_use]
    pub fn events() -> Self {
        let samples = || Samples::new(LogSampling::default());
        Self { samples: samples(), security: samples(), file: None }
    }

    /// Tells refusals as tracing events, and appends them to this file, which may be
    /// renamed at any time. Starts the thread that writes.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened to append, or the thread not be started.
    pub fn appending_to(path: impl Into<PathBuf>) -> Result<Self, LogError> {
        Self::with_file(Some(path.into()))
    }

    /// Tells refusals as tracing events, and writes them to standard output. Starts the thread that writes.
    ///
    /// ```
    /// # use hivemind_tower::RefusalLog;
    /// let log = RefusalLog::standard_output()?; // For a container, whose lines somebody else collects.
    /// # Ok::<(), hivemind_tower::error::LogError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no standard output, or the thread cannot be started.
    pub fn standard_output() -> Result<Self, LogError> {
        Self::with_file(None)
    }

    fn with_file(path: Option<PathBuf>) -> Result<Self, LogError> {
        let mut log = Self::events();
        log.file = Some(LogFile::open(path)?);
        Ok(log)
    }

    /// The same, for a jail with another `maxretry` or `findtime`.
    ///
    /// ```
    /// # use hivemind_tower::{LogSampling, RefusalLog};
    /// let log = RefusalLog::events().with_sampling(LogSampling::default());
    /// ```
    #[must_use]
    pub fn with_sampling(mut self, sampling: LogSampling) -> Self {
        self.samples = Samples::new(sampling);
        self.security = Samples::new(sampling);
        self
    }

    /// Tells a refusal, or counts it where this client's were told often enough. It
    /// never waits for a disk.
    pub fn record(&self, refusal: &Refusal<'_>) {
        if self.file.is_none() && !tracing::enabled!(target: RefusalLog::TARGET, tracing::Level::INFO) {
            return;
        }
        let sampled = self.samples.count(refusal.address, refusal.at);
        for left_out in &sampled.left_out {
            self.tell_left_out(left_out, refusal.at);
        }
        if sampled.is_written {
            self.tell(Whose::Client(refusal.address), &line::refused(refusal), refusal.at);
        }
    }

    /// How many lines are missing in the file, because it could not be written or the
    /// disk was too slow.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.file.as_ref().map_or(0, LogFile::lost)
    }

    /// Waits until the file holds everything that was told, at most so long; says
    /// whether it does. This blocks: for tests, and for the end of a process.
    #[must_use]
    pub fn flush(&self, most: Duration) -> bool {
        self.file.as_ref().is_none_or(|file| file.flush(most))
    }

    fn tell_left_out(&self, left_out: &LeftOut, at: Timestamp) {
        self.tell(left_out.whose, &line::left_out(left_out), at);
    }

    fn tell(&self, whose: Whose, message: &str, at: Timestamp) {
        // Of no span: its name and fields would stand before the target, where fail2ban looks for none.
        tracing::info!(target: RefusalLog::TARGET, parent: None, "{message}");
        if let Some(file) = self.file.as_ref().filter(|_| whose != Whose::Client(None)) {
            file.append(line::with_time(at, message), at);
        }
    }
}

/// As events alone.
impl Default for RefusalLog {
    fn default() -> Self {
        Self::events()
    }
}

/// What was left out and is not told yet is told.
impl Drop for RefusalLog {
    fn drop(&mut self) {
        self.security.finish().iter().for_each(security::tell_left_out);
        for some in self.samples.finish().chunks(file::QUEUE / 2) {
            for left_out in some {
                // Nobody says what time it is now; its window's is true and enough.
                self.tell_left_out(left_out, left_out.since);
            }
            // Or the queue would overflow. A disk that does not answer costs this wait once.
            if !self.flush(file::LAST_WAIT) {
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
