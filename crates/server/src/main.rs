//! The binary `hivemind`.

use std::process::ExitCode;

fn main() -> ExitCode {
    hivemind::run()
}
