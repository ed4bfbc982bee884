//! The dashboard in a real browser, against the real binary. Every test starts a browser and servers of its own on ports
//! that the kernel chooses, and waits for events under a deadline.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod access;
mod axe;
mod history;
mod hostile;
mod key;
mod keyboard;
mod limits;
mod link;
mod looks;
mod mesh;
mod page;
mod pictures;
mod policy;
mod questions;
mod rows;
mod scene;
mod traffic;
mod waiting;
