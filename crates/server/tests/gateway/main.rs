//! The gateway from outside: the real binary between real clients and real upstreams. Every test
//! starts a gateway of its own on ports that the kernel chooses, and waits for events under a deadline.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

#[expect(dead_code, reason = "it is shared with the tests of the dashboard, which need more")]
#[path = "../browser/mod.rs"]
mod chromium;
mod harness;
#[expect(dead_code, unused_imports, reason = "it is shared with the tests of the wire, which need more")]
#[path = "../wire/http2/mod.rs"]
mod http2;
#[expect(dead_code, reason = "it describes the messages of the rate limit service, which are not sent here")]
#[path = "../../src/proto.rs"]
mod proto;
#[expect(dead_code, unused_imports, reason = "it is shared with the tests of the service, which need more")]
#[path = "../serve/support/mod.rs"]
mod support;

mod bounds;
mod browser;
mod certificates;
mod drain;
mod expectations;
mod forwarding;
mod idle;
mod keys;
mod limits;
mod logs;
mod protocols;
mod proxying;
mod reload;
mod retries;
mod routing;
mod side_by_side;
mod sizes;
mod slow_clients;
mod smuggling;
mod smuggling_http2;
mod streaming;
mod streams;
mod tls;
mod upstreams;
mod websocket;
