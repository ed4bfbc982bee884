//! How it runs: under a supervisor, on sockets that others have opened, asked by its own command, and taken over by a
//! second process. The real binary, every port one that the kernel chooses, every wait under a deadline.

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
mod take_over;
