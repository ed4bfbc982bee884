//! How it is, told to whoever has started this process and listens for it: `Type=notify` of systemd, and all who do
//! the same.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// systemd passes over a message of more than 4,096 bytes.
const LONGEST_STATUS: usize = 1_000;
/// Where its queue is full, for a second in all.
const TRIED_EVERY: Duration = Duration::from_millis(10);
const TRIES: u32 = 100;

/// Whoever supervises this process; where nobody does, what it is told goes nowhere.
#[derive(Debug, Default)]
pub(crate) struct Supervisor {
    to: Option<(UnixDatagram, SocketAddr)>,
    /// How often it wants to hear that this process lives.
    watchdog: Option<Duration>,
}

impl Supervisor {
    /// As the environment names it.
    pub(crate) fn of_environment() -> Self {
        let to = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()).and_then(|name| {
            open(&name)
                .inspect_err(|error| {
                    tracing::warn!("NOTIFY_SOCKET names no socket that can be told anything: {error}");
                })
                .ok()
        });
        let number = |name| env::var(name).ok()?.parse::<u64>().ok();
        // One that is meant for another process is none of ours.
        let is_ours = env::var_os("WATCHDOG_PID").is_none()
            || number("WATCHDOG_PID") == Some(std::process::id().into());
        let micros = number("WATCHDOG_USEC").filter(|micros| *micros > 0 && is_ours && to.is_some());
        Self { to, watchdog: micros.map(Duration::from_micros) }
    }

    /// It serves; once after the start, and after each reload.
    pub(crate) fn is_ready(&self, status: &str) {
        // Apart: a message that is too long is not heard at all.
        self.tell("READY=1");
        self.status_is(status);
    }

    /// Files are read anew, until it is ready again.
    pub(crate) fn is_reloading(&self) {
        self.tell(&format!(
            "RELOADING=1\nMONOTONIC_USEC={}\nSTATUS=reading its files anew",
            monotonic_micros()
        ));
    }

    pub(crate) fn is_stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=stopping: what is under way is answered");
    }

    pub(crate) fn status_is(&self, status: &str) {
        self.tell(&format!("STATUS={}", line(status)));
    }

    /// Another process goes on in the place of this one. Whoever is not told of it would end both.
    ///
    /// # Errors
    /// It cannot be told, or would not believe it: that process is not one of its own.
    pub(crate) async fn is_followed_by(&self, process: u32) -> io::Result<()> {
        let Some((socket, to)) = &self.to else { return Ok(()) };
        let group = |of: String| std::fs::read_to_string(format!("/proc/{of}/cgroup")).ok();
        if let (Some(own), Some(other)) = (group("self".to_owned()), group(process.to_string()))
            && own != other
        {
            let why = "it was not started within the service; send SIGUSR2 to this process instead";
            return Err(io::Error::other(why));
        }
        let words = format!("MAINPID={process}\nREADY=1\nSTATUS=taken over by process {process}");
        let mut ticks = tokio::time::interval(TRIED_EVERY);
        for _ in 0..TRIES {
            ticks.tick().await;
            match socket.send_to_addr(words.as_bytes(), to) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                told => return told.map(drop),
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// This process goes on after all.
    pub(crate) fn is_main(&self) {
        self.tell(&format!("MAINPID={}\nREADY=1\nSTATUS=goes on", std::process::id()));
    }

    /// Says that this process lives as long as this runs, twice as often as is asked for.
    pub(crate) async fn keep_telling(&self) {
        let Some(within) = self.watchdog else { return };
        let mut ticks = tokio::time::interval((within / 2).max(Duration::from_millis(1)));
        loop {
            ticks.tick().await;
            self.tell("WATCHDOG=1");
        }
    }

    fn tell(&self, words: &str) {
        let Some((socket, to)) = &self.to else { return };
        if let Err(error) = socket.send_to_addr(words.as_bytes(), to) {
            tracing::debug!(%error, "the supervisor could not be told: {words}");
        }
    }
}

/// The socket of a name: a path, or after an `@` a name that no file has.
fn open(name: &OsString) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match name.as_bytes() {
        [b'@', name @ ..] => abstract_address(name)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    // Who does not listen must not stop us.
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}

#[cfg(target_os = "linux")]
fn abstract_address(name: &[u8]) -> io::Result<SocketAddr> {
    <SocketAddr as std::os::linux::net::SocketAddrExt>::from_abstract_name(name)
}

#[cfg(not(target_os = "linux"))]
fn abstract_address(_name: &[u8]) -> io::Result<SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}

/// What systemd's own clock says, by which it knows this reload from the one before. Nothing here is measured by it,
/// and no clock of ours can be told to another process.
fn monotonic_micros() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let [seconds, nanos] = [now.tv_sec, now.tv_nsec].map(|part| u64::try_from(part).unwrap_or_default());
    seconds.saturating_mul(1_000_000).saturating_add(nanos / 1_000)
}

/// One line, since each line is a word of its own, and as much of it as somebody reads there.
fn line(text: &str) -> String {
    let mut line = text.lines().collect::<Vec<_>>().join("; ");
    line.truncate(line.floor_char_boundary(LONGEST_STATUS));
    line
}
