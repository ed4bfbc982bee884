#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example prints its address")]

//! A rate limit for a hyper service without a framework: `cargo run --example hyper`.

use bytes::Bytes;
use hivemind_tower::{Limits, PartialLimit, Peer, RateLimitLayer};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::error::Error;
use tower::{Layer, ServiceBuilder, service_fn};

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::from("hello")))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let layer = RateLimitLayer::new(Limits::new().platform(PartialLimit::new().requests(5).burst(2)))?;
    let limited = layer.layer(service_fn(hello));

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}", listener.local_addr()?);
    loop {
        let (stream, peer) = listener.accept().await?;
        // hyper does not put the peer's address into the extensions.
        let with_peer = ServiceBuilder::new().map_request(move |mut request: Request<Incoming>| {
            request.extensions_mut().insert(Peer(peer));
            request
        });
        let service = TowerToHyperService::new(with_peer.service(limited.clone()));
        let connection =
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                eprintln!("{peer}: {error}");
            }
        });
    }
}
