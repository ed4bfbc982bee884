//! The binary `hivemind`.

use std::process::ExitCode;

/// A call is a dozen small allocations of hyper's and h2's; see docs/decisions/009.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    hivemind::run()
}
