//! Running the service: under a supervisor, on inherited sockets, with its health command, and through
//! zero-downtime upgrades. The real binary, on ports that the kernel chooses; every wait has a deadline.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod acme;
mod health;
mod load;
mod pebble;
mod process;
mod restarts;
mod sockets;
mod supervisor;
mod upgrade;
