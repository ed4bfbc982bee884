//! How it runs: under a supervisor, on sockets that others have opened, asked by its own command, and taken over by a
//! second process. The real binary, every port one that the kernel chooses, every wait under a deadline.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

#[expect(
    dead_code,
    reason = "it describes the messages of the rate limit service, which nobody asks for here"
)]
#[path = "../../src/proto.rs"]
mod proto;
#[expect(dead_code, unused_imports, reason = "it is shared with the tests of the service, which need more")]
#[path = "../serve/support/mod.rs"]
mod support;

mod acme;
mod health;
mod load;
mod pebble;
mod process;
#[expect(dead_code, reason = "it is shared with the tests of the storage, which need more")]
#[path = "../storage/redis.rs"]
mod redis;
mod restarts;
mod sockets;
mod supervisor;
mod take_over;
