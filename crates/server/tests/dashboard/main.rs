//! The dashboard in a real browser, against the real binary. Every test starts a browser and servers of its own on ports
//! that the kernel chooses, and waits for events under a deadline.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

#[expect(dead_code, reason = "it is shared with the tests of the gateway, which need more")]
#[path = "../browser/mod.rs"]
mod browser;
#[expect(dead_code, reason = "it is that of tests/mesh, which needs more of it")]
#[path = "../mesh/nodes.rs"]
mod nodes;
#[expect(dead_code, reason = "nothing here reads descriptions of messages")]
#[path = "../../src/proto.rs"]
mod proto;
#[expect(dead_code, unused_imports, reason = "it is that of tests/serve, which needs more of it")]
#[path = "../serve/support/mod.rs"]
mod support;
#[path = "../tools/mod.rs"]
mod tools;

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
