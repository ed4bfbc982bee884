#![expect(clippy::print_stdout, reason = "an example prints its address")]

//! A rate limit for a gRPC server. Calls over the limit get `RESOURCE_EXHAUSTED`:
//! `cargo run --features tonic --example tonic`.

use hivemind_tower::{Limits, PartialLimit, RateLimitLayer};
use std::error::Error;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let layer = RateLimitLayer::new(Limits::new().platform(PartialLimit::new().requests(5).burst(2)))?;
    let (_reporter, health) = tonic_health::server::health_reporter();

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}", listener.local_addr()?);
    Server::builder()
        .layer(layer)
        .add_service(health)
        .serve_with_incoming(TcpIncoming::from(listener))
        .await?;
    Ok(())
}
