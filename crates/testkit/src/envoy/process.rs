//! A process that does not outlive its test.

use std::process::{Child, Command, ExitStatus};

/// Ended by its own id when dropped, also where a test fails while it still waits for it.
pub struct Process(pub Child);

impl Process {
    pub fn start(command: &mut Command) -> Self {
        Self(command.spawn().unwrap())
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.0.try_wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only where it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
