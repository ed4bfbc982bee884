//! Security events: one for each refusal, for monitoring of floods.
//!
//! They are sampled like the lines, with counts of their own: refusals in dry run and of WebSocket messages have
//! events but no lines, and must not use up the lines of a client.

use super::RefusalLog;
use super::sampler::{LeftOutLines, LogSubject};
use crate::bucket::Bucket;
use crate::client::Client;
use crate::retry_after::RetryAfter;
use hivemind_core::Timestamp;

const TARGET: &str = "hivemind::security";

/// A limit that was exceeded; in dry run the request passed nevertheless.
pub(crate) struct LimitExceeded<'a> {
    pub(crate) client: &'a Client,
    /// The name that the layer gives the service.
    pub(crate) service: &'a str,
    pub(crate) endpoint: &'a str,
    pub(crate) bucket: &'a Bucket,
    pub(crate) retry_after: Option<RetryAfter>,
    pub(crate) is_dry_run: bool,
    pub(crate) at: Timestamp,
}

impl RefusalLog {
    /// Emits the event, or counts it if this address has enough events already.
    pub(crate) fn record_exceeded(&self, exceeded: &LimitExceeded<'_>) {
        if !tracing::enabled!(target: TARGET, tracing::Level::WARN) {
            return;
        }
        // Sampled by address, because a client can make up a name for each request.
        let address = exceeded.client.address();
        let sample = self.security.record(address, exceeded.at);
        let (own, others): (Vec<_>, Vec<_>) =
            sample.left_out.iter().partition(|left_out| left_out.subject == LogSubject::Client(address));
        others.into_iter().for_each(log_left_out);
        if sample.is_written {
            emit(exceeded, own.iter().map(|left_out| left_out.lines).sum());
        }
    }
}

fn emit(exceeded: &LimitExceeded<'_>, left_out: u64) {
    let LimitExceeded { client, service, endpoint, bucket, is_dry_run, .. } = *exceeded;
    let retry_after = match exceeded.retry_after {
        Some(RetryAfter::Seconds(seconds)) => Some(seconds.get()),
        _ => None,
    };
    tracing::warn!(
        target: TARGET,
        event = "RateLimitExceeded",
        client = client.name(),
        service,
        endpoint,
        r#type = bucket.kind.name(),
        limit = bucket.limit.requests(),
        retry_after,
        dry_run = is_dry_run,
        left_out,
    );
}

/// Reports events that were left out and are not part of a later event.
pub(super) fn log_left_out(left_out: &LeftOutLines) {
    let client = match left_out.subject {
        LogSubject::Client(address) => Some(Client::by_address(address)),
        LogSubject::All => None,
    };
    tracing::warn!(
        target: TARGET,
        event = "RateLimitExceededLeftOut",
        client = client.as_ref().map_or("*", Client::name),
        left_out = left_out.lines,
    );
}
