//! External programs: found where `./test` installs them, or the test fails with their name.

use hivemind_testkit::within;
use std::process::Stdio;
use tokio::process::{Child, Command};

/// A process that is killed when its handle is dropped.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        // Fails only if the process has ended already.
        let _ = self.0.start_kill();
    }
}

/// The command of a program that `./test` installs.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    // Debian installs nginx in a folder that is only in root's path.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin")).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Runs a program that must succeed and returns its standard output.
pub(crate) async fn run(program: &str, arguments: &[&str]) -> String {
    let output = within(program, command(program).args(arguments).output()).await;
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}; `./test` installs it"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{program} {arguments:?}: {} {}", output.status, text(&output.stderr));
    text(&output.stdout)
}

/// Whether the long tier runs.
pub(crate) fn is_long() -> bool {
    std::env::var_os("HIVEMIND_LONG").is_some_and(|value| value == "1")
}
