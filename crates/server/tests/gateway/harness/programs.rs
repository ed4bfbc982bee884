//! Programs that are no part of this repository: they are there, or the test says what to install.

use hivemind_testkit::within;
use std::process::Stdio;
use tokio::process::{Child, Command};

/// A process that does not outlive its test: it is ended by its own handle.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It fails only where it has ended already.
        let _ = self.0.start_kill();
    }
}

/// The command of a program that `./test` installs.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    // Debian keeps nginx where only root looks.
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin")).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Runs a client to its end: its standard output, where it succeeded.
pub(crate) async fn run(program: &str, arguments: &[&str]) -> String {
    let output = within(program, command(program).args(arguments).output()).await;
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}; `./test` installs it"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{program} {arguments:?}: {} {}", output.status, text(&output.stderr));
    text(&output.stdout)
}

/// Whether there is time for more.
pub(crate) fn is_long() -> bool {
    std::env::var_os("HIVEMIND_LONG").is_some_and(|value| value == "1")
}
