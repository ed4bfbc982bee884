//! The Rust examples of the top-level README, compiled and run.

#![expect(clippy::unwrap_used, reason = "a test helper may panic")]

use axum::{Router, routing::get};
use futures_util::FutureExt;
use hivemind_tower::{Limits, RateLimiter};
use std::error::Error;
use std::net::SocketAddr;
use tokio::net::TcpListener;

const README: &str = include_str!("../../../README.md");
const HERE: &str = include_str!("readme.rs");

#[rustfmt::skip] // The README has its own line breaks.
fn as_a_library() -> Result<(), Box<dyn Error>> {
    use hivemind_core::{IpLimiter, Rate};
    use std::{net::Ipv4Addr, time::Duration};

    // 10 requests per second and a burst of 20 per address; idle buckets are removed every minute.
    let limiter = IpLimiter::new(Rate::per_second(10)?, 20, Duration::from_secs(60))?;
    if limiter.allow(Ipv4Addr::new(203, 0, 113, 9)) {
        // serve it
    }
    Ok(())
}

async fn hello() -> &'static str {
    "hello"
}

#[rustfmt::skip]
async fn in_axum() -> Result<(), Box<dyn Error>> {
    let limiter = RateLimiter::new(Limits::new())?; // 100 requests a minute for each client
    let router = Router::new().route("/", get(hello)).layer(limiter.layer("shop"));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let service = router.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).await?;
    Ok(())
}

/// The body of a function in this file, without indentation and without its final expression.
fn lines_of(function: &str) -> String {
    let (_, rest) = HERE.split_once(&format!("fn {function}()")).unwrap();
    let (body, _) = rest.split_once("{\n").unwrap().1.split_once("    Ok(())\n}").unwrap();
    let lines = body.lines().map(|line| line.strip_prefix("    ").unwrap_or(line).to_owned() + "\n");
    lines.collect()
}

// Fails when a word changes in either code block of the README.
#[test]
fn readme_rust_examples_equal_the_compiled_code() {
    // Tests bind port 0.
    let page = README.replace(":3000\").await", ":0\").await");
    let blocks: Vec<&str> =
        page.split("\n```rust\n").skip(1).map(|block| block.split("```").next().unwrap()).collect();
    assert_eq!(blocks, [lines_of("as_a_library"), lines_of("in_axum")], "copy them into the README");
}

// Fails with a rate of zero, which is invalid, and with an address that cannot be bound.
#[tokio::test]
async fn readme_rust_examples_run() {
    as_a_library().unwrap();
    // It serves forever unless startup fails.
    let ended = in_axum().now_or_never();
    assert!(ended.is_none(), "{ended:?}");
}
