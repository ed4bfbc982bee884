//! The signals that the service knows.

use super::handover::{Handover, Successor};
use crate::health::Health;
use crate::reload::Reloads;
use crate::systemd::Supervisor;
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How a successor is started.
const TAKE_OVER: &str = "--take-over";

/// From here on none of them ends the process by itself, SIGHUP without anything to load anew included.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Option<Signal>,
    succeed: Signal,
    /// What is started to take over.
    program: PathBuf,
}

/// Why it ends.
pub(super) enum End {
    Told,
    /// Another process serves in its place.
    FollowedBy(Successor),
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: Some(signal(SignalKind::hangup())?),
            succeed: signal(SignalKind::user_defined2())?,
            program: program(env::args_os().next()),
        })
    }

    /// For whoever heeds it: one that has come before is not lost.
    pub(super) fn hangup(&mut self) -> io::Result<Signal> {
        self.hangup.take().map_or_else(|| signal(SignalKind::hangup()), Ok)
    }

    /// Returns when it has to end. SIGUSR2 starts whoever takes over.
    pub(super) async fn end(&mut self, handover: Option<&Handover>) -> End {
        let followed = async {
            match handover {
                Some(handover) => handover.successor().await,
                None => std::future::pending().await,
            }
        };
        let mut followed = std::pin::pin!(followed);
        loop {
            tokio::select! {
                () = terminated(&mut self.terminate, &mut self.interrupt) => return End::Told,
                successor = &mut followed => return End::FollowedBy(successor),
                _ = self.succeed.recv() => start_successor(handover.is_some(), &self.program),
            }
        }
    }

    /// Returns when it is told to end.
    pub(super) async fn told(&mut self) {
        terminated(&mut self.terminate, &mut self.interrupt).await;
    }
}

async fn terminated(terminate: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// Loads everything anew at each SIGHUP, and tells whoever waits for the end of it.
pub(super) async fn heed_hangups(
    mut hangup: Signal,
    reloads: Reloads,
    supervisor: Arc<Supervisor>,
    health: Arc<Health>,
) {
    while hangup.recv().await.is_some() {
        supervisor.is_reloading();
        // What became of each is told by itself.
        reloads.all().await;
        supervisor.is_ready(&health.details());
    }
}

/// Starts the program that is on disk now, as this process was started.
fn start_successor(can_hand_over: bool, program: &Path) {
    if !can_hand_over {
        tracing::warn!("SIGUSR2 starts a process that takes over, and that needs `server.handover_socket`");
        return;
    }
    let words: Vec<OsString> = env::args_os().skip(1).filter(|word| word != OsStr::new(TAKE_OVER)).collect();
    let mut command = tokio::process::Command::new(program);
    // Whoever watches over this process watches over that one.
    command.args(words).arg(TAKE_OVER).env_remove("WATCHDOG_PID").stdin(Stdio::null());
    match command.spawn() {
        Ok(mut child) => drop(tokio::spawn(async move {
            // It outlives this process, unless it cannot start.
            if let Ok(status) = child.wait().await {
                tracing::warn!("the process that should take over has ended: {status}");
            }
        })),
        Err(error) => {
            tracing::error!("{} cannot be started to take over: {error}", program.display());
        }
    }
}

/// The program as it was called, for that is what an upgrade replaces; or, where it was found by the shell's path, the
/// file that runs, by its name of now: once it is replaced, the kernel calls it deleted.
fn program(called: Option<OsString>) -> PathBuf {
    let called = called.map(PathBuf::from).filter(|path| path.components().count() > 1);
    called.or_else(|| env::current_exe().ok()).unwrap_or_else(|| PathBuf::from("hivemind"))
}
