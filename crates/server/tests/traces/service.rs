//! Starting, calling and stopping the service under test.

use crate::RULES;
use crate::receiver::Receiver;
use hivemind_testkit::{Server, Setup, request, within};
use tonic::Request;

/// The trace and span ids of the standard's example.
pub(crate) const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
pub(crate) const SPAN: &str = "b7ad6b7169203331";
pub(crate) const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
pub(crate) const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

/// A service that exports its traces to a receiver.
pub(crate) fn sending_to(receiver: &Receiver) -> Setup {
    Setup::rules(RULES).with("observability.otel.tracing.endpoint", &receiver.url)
}

/// Sends one request with these headers and returns its outcome.
pub(crate) async fn ask(
    server: &Server,
    (domain, descriptors): (&str, &str),
    headers: &[(&'static str, &str)],
) -> Result<&'static str, tonic::Status> {
    let mut call = Request::new(request(domain, descriptors));
    for (name, value) in headers {
        call.metadata_mut().append(*name, value.parse().unwrap());
    }
    let mut client = server.client().await;
    let answer = within("an answer", client.should_rate_limit(call)).await?;
    Ok(hivemind_testkit::overall(answer.get_ref()))
}

/// Stops a service with SIGTERM; by then it has exported everything.
pub(crate) async fn end(mut server: Server) {
    server.signal("TERM").await;
    let status = server.ended().await;
    assert!(status.success(), "it ended with {status}:\n{}", server.log.rest().await);
}
