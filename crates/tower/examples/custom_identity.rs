#![expect(clippy::print_stdout, reason = "an example prints its address")]

//! Clients identified by a tenant in the path, or by the address that a trusted proxy reports:
//! `cargo run --features axum --example custom_identity`.

use axum::Router;
use hivemind_tower::{
    ClientAddress, ForwardingHeader, Identity, IdentitySource, Limits, PartialLimit, RateLimiter,
};
use std::error::Error;
use std::net::SocketAddr;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let tenant =
        IdentitySource::custom("tenant", |request| request.uri.path().split('/').nth(1).map(str::to_owned))?;
    let address = ClientAddress::behind_proxies(["127.0.0.0/8"], ForwardingHeader::XForwardedFor)?;
    let limiter = RateLimiter::builder(Limits::new().platform(PartialLimit::new().requests(5).burst(2)))
        .identity(Identity::new([tenant], address)?)
        .build()?;

    let router = Router::new().fallback(|| async { "hello" }).layer(limiter.layer("tenants"));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}", listener.local_addr()?);
    axum::serve(listener, router.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
