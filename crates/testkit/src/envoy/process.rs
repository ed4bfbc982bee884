//! A process that does not outlive its test.

use std::process::{Child, Command, ExitStatus};

/// Killed by its own id when dropped, also if a test fails while it waits for it.
pub struct Process(pub Child);

impl Process {
    pub fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    /// The exit status, if the process has exited.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if the process has exit_status already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
