//! The binary `hivemind`.

use std::process::ExitCode;

/// mimalloc, because one call makes a dozen small allocations in hyper and h2; see docs/decisions/009.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    hivemind::run()
}
