//! Baseline: a constant OK from tonic, the usual stack without a limiter. Arguments: address, `ct` or `mt`.

use rls::rate_limit_service_server::{RateLimitService, RateLimitServiceServer};
use rls::{RateLimitRequest, RateLimitResponse};
use tonic::{Request, Response, Status};

#[expect(clippy::pedantic, reason = "generated")]
mod rls {
    tonic::include_proto!("envoy.service.ratelimit.v3");
}

struct Constant;

#[tonic::async_trait]
impl RateLimitService for Constant {
    async fn should_rate_limit(
        &self,
        request: Request<RateLimitRequest>,
    ) -> Result<Response<RateLimitResponse>, Status> {
        std::hint::black_box(&request.into_inner());
        Ok(Response::new(RateLimitResponse { overall_code: 1, ..Default::default() }))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, address, mode] = arguments.as_slice() else {
        return Err("usage: ref_tonic ADDRESS ct|mt".into());
    };
    let address = address.parse()?;
    let service = RateLimitServiceServer::new(Constant);
    rls_bench::runtime(mode)?
        .block_on(tonic::transport::Server::builder().add_service(service).serve(address))?;
    Ok(())
}
