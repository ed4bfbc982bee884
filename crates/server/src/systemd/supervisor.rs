//! Service notifications: the `sd_notify` protocol, for `Type=notify` of systemd and compatible supervisors.

use std::env;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// systemd ignores a message of more than 4,096 bytes.
const LONGEST_STATUS: usize = 1_000;
/// Retries while the supervisor's queue is full, for one second in all.
const RETRY_INTERVAL: Duration = Duration::from_millis(10);
const TRIES: u32 = 100;

/// The supervisor of this process; without one, notifications are dropped.
#[derive(Debug, Default)]
pub(crate) struct Supervisor {
    to: Option<(UnixDatagram, SocketAddr)>,
    /// The watchdog timeout.
    watchdog: Option<Duration>,
}

impl Supervisor {
    /// The supervisor in the environment variables.
    pub(crate) fn from_environment() -> Self {
        let to = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()).and_then(|name| {
            open(&name)
                .inspect_err(|error| {
                    tracing::warn!("NOTIFY_SOCKET is not a usable socket: {error}");
                })
                .ok()
        });
        let number = |name| env::var(name).ok()?.parse::<u64>().ok();
        // A watchdog of another process is ignored.
        let is_ours = env::var_os("WATCHDOG_PID").is_none()
            || number("WATCHDOG_PID") == Some(std::process::id().into());
        let micros = number("WATCHDOG_USEC").filter(|micros| *micros > 0 && is_ours && to.is_some());
        Self { to, watchdog: micros.map(Duration::from_micros) }
    }

    /// Reports that the process serves: after startup, and after each reload.
    pub(crate) fn notify_ready(&self, status: &str) {
        // In separate messages: systemd ignores a message that is too long.
        self.send("READY=1");
        self.notify_status(status);
    }

    /// Reports a reload, until `notify_ready` is called.
    pub(crate) fn notify_reloading(&self) {
        self.send(&format!("RELOADING=1\nMONOTONIC_USEC={}\nSTATUS=reloading its files", monotonic_micros()));
    }

    pub(crate) fn notify_stopping(&self) {
        self.send("STOPPING=1\nSTATUS=stopping: requests in progress are answered");
    }

    pub(crate) fn notify_status(&self, status: &str) {
        self.send(&format!("STATUS={}", line(status)));
    }

    /// Reports that another process continues in place of this one. A supervisor that does not know it would stop
    /// both.
    ///
    /// # Errors
    /// The supervisor cannot be notified, or would reject the process because it is not its own.
    pub(crate) async fn notify_successor(&self, process: u32) -> io::Result<()> {
        let Some((socket, to)) = &self.to else { return Ok(()) };
        let group = |of: String| std::fs::read_to_string(format!("/proc/{of}/cgroup")).ok();
        if let (Some(own), Some(other)) = (group("self".to_owned()), group(process.to_string()))
            && own != other
        {
            let why =
                "the successor was not started within the service; send SIGUSR2 to this process instead";
            return Err(io::Error::other(why));
        }
        let message = format!("MAINPID={process}\nREADY=1\nSTATUS=taken over by process {process}");
        let mut ticks = tokio::time::interval(RETRY_INTERVAL);
        for _ in 0..TRIES {
            ticks.tick().await;
            match socket.send_to_addr(message.as_bytes(), to) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                sent => return sent.map(drop),
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Reports that this process continues after all.
    pub(crate) fn notify_main(&self) {
        self.send(&format!("MAINPID={}\nREADY=1\nSTATUS=continues", std::process::id()));
    }

    /// Feeds the watchdog while this runs, twice as often as required.
    pub(crate) async fn feed_watchdog(&self) {
        let Some(within) = self.watchdog else { return };
        let mut ticks = tokio::time::interval((within / 2).max(Duration::from_millis(1)));
        loop {
            ticks.tick().await;
            self.send("WATCHDOG=1");
        }
    }

    fn send(&self, message: &str) {
        let Some((socket, to)) = &self.to else { return };
        if let Err(error) = socket.send_to_addr(message.as_bytes(), to) {
            tracing::debug!(%error, "the supervisor could not be notified: {message}");
        }
    }
}

/// Opens the socket of a name: a path, or after `@` a name in the abstract namespace.
fn open(name: &OsString) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match name.as_bytes() {
        [b'@', name @ ..] => abstract_address(name)?,
        _ => SocketAddr::from_pathname(name)?,
    };
    let socket = UnixDatagram::unbound()?;
    // A supervisor that does not read must not block us.
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

/// systemd compares this monotonic clock between reloads. Nothing here is measured with it, and our own clock type
/// has no meaning in another process.
fn monotonic_micros() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let [seconds, nanos] = [now.tv_sec, now.tv_nsec].map(|part| u64::try_from(part).unwrap_or_default());
    seconds.saturating_mul(1_000_000).saturating_add(nanos / 1_000)
}

/// One line, because each line is a separate assignment, truncated to a readable length.
fn line(text: &str) -> String {
    let mut line = text.lines().collect::<Vec<_>>().join("; ");
    line.truncate(line.floor_char_boundary(LONGEST_STATUS));
    line
}
