#![expect(clippy::print_stdout, reason = "an example prints its address")]

//! A rate limit for an axum router: `cargo run --features axum --example axum`.

use axum::{Router, routing::get};
use hivemind_tower::{Limits, PartialLimit, RateLimiter, ServiceLimits};
use std::error::Error;
use std::net::SocketAddr;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let login = PartialLimit::new().requests(5).burst(2);
    let shop = ServiceLimits::new("shop").endpoint("/login", login);
    let limiter = RateLimiter::new(Limits::new().service(shop))?;

    let router = Router::new()
        .route("/", get(|| async { "hello" }))
        .route("/login", get(|| async { "who are you?" }))
        .layer(limiter.layer("shop"));

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, router.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
