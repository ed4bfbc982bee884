//! Signals: shutdown, reload, and the start of a successor.

use super::handover::{Handover, Successor};
use crate::systemd::Supervisor;
use hivemind_admin::Reloads;
use hivemind_engine::health::Health;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The flag that starts a successor.
const TAKE_OVER: &str = "--take-over";

/// The signal handlers. While they exist, no signal ends the process by default, not even SIGHUP without files to
/// reload.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Option<Signal>,
    upgrade: Signal,
    /// The program to start as the successor.
    program: PathBuf,
}

/// Why the process stops.
pub(super) enum ShutdownReason {
    Signal,
    /// Another process serves in its place.
    Successor(Successor),
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: Some(signal(SignalKind::hangup())?),
            upgrade: signal(SignalKind::user_defined2())?,
            program: program(env::args_os().next()),
        })
    }

    /// The SIGHUP stream; a signal that arrived earlier is not lost.
    pub(super) fn hangup(&mut self) -> io::Result<Signal> {
        self.hangup.take().map_or_else(|| signal(SignalKind::hangup()), Ok)
    }

    /// Returns when the process must stop. SIGUSR2 starts a successor.
    pub(super) async fn wait_for_stop(&mut self, handover: Option<&Handover>) -> ShutdownReason {
        let followed = async {
            match handover {
                Some(handover) => handover.successor().await,
                None => std::future::pending().await,
            }
        };
        let mut followed = std::pin::pin!(followed);
        loop {
            tokio::select! {
                () = terminated(&mut self.terminate, &mut self.interrupt) => return ShutdownReason::Signal,
                successor = &mut followed => return ShutdownReason::Successor(successor),
                _ = self.upgrade.recv() => start_successor(handover.is_some(), &self.program),
            }
        }
    }

    /// Returns on SIGTERM or SIGINT.
    pub(super) async fn stop_requested(&mut self) {
        terminated(&mut self.terminate, &mut self.interrupt).await;
    }
}

async fn terminated(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Reloads everything on each SIGHUP, and notifies the supervisor at the start and end.
pub(super) async fn reload_on_hangup(
    mut hangup: Signal,
    reloads: Reloads,
    supervisor: Arc<Supervisor>,
    health: Arc<Health>,
) {
    while hangup.recv().await.is_some() {
        supervisor.notify_reloading();
        // Each reload logs its own result.
        reloads.all().await;
        supervisor.notify_ready(&health.details());
    }
}

/// Starts the program that is on disk now, with the arguments of this process.
fn start_successor(can_hand_over: bool, program: &Path) {
    if !can_hand_over {
        tracing::warn!("SIGUSR2 ignored: starting a successor needs `server.handover_socket`; set it");
        return;
    }
    let words: Vec<OsString> = env::args_os().skip(1).filter(|word| word != OsStr::new(TAKE_OVER)).collect();
    let mut command = tokio::process::Command::new(program);
    // The supervisor's watchdog applies to the successor as well.
    command.args(words).arg(TAKE_OVER).env_remove("WATCHDOG_PID").stdin(Stdio::null());
    match command.spawn() {
        Ok(mut child) => drop(tokio::spawn(async move {
            // It outlives this process, unless it fails to start.
            if let Ok(status) = child.wait().await {
                tracing::warn!("the successor process ended: {status}");
            }
        })),
        Err(error) => {
            tracing::error!("cannot start {} as successor: {error}", program.display());
        }
    }
}

/// The program path as it was called, because an upgrade replaces that file. If the shell found it in its search
/// path, the current executable: after a replacement the kernel would report it as deleted.
fn program(called: Option<OsString>) -> PathBuf {
    let called = called.map(PathBuf::from).filter(|path| path.components().count() > 1);
    called.or_else(|| env::current_exe().ok()).unwrap_or_else(|| PathBuf::from("hivemind"))
}
