//! The dashboard in a real browser, against the real binary. Every test starts its own browser page and servers
//! on ports that the kernel chooses, and waits for events under a deadline.

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
mod layout;
mod limits;
mod link;
mod loading;
mod mesh;
mod page;
mod pictures;
mod policy;
mod rows;
mod rules;
mod scene;
mod traffic;
