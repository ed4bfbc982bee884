//! The event for those who watch for floods. It is told as seldom as the lines are, by counts of its
//! own: refusals of a dry run and of messages have events and no lines, and must cost nobody a line.

use super::RefusalLog;
use super::sample::{LeftOut, Whose};
use crate::bucket::Bucket;
use crate::client::Client;
use crate::retry_after::RetryAfter;
use hivemind_core::Timestamp;

const TARGET: &str = "hivemind::security";

/// A refusal, or what a dry run would have refused.
pub(crate) struct Exceeded<'a> {
    pub(crate) client: &'a Client,
    /// The service as its layer calls it.
    pub(crate) service: &'a str,
    pub(crate) endpoint: &'a str,
    pub(crate) bucket: &'a Bucket,
    pub(crate) retry_after: Option<RetryAfter>,
    pub(crate) is_dry_run: bool,
    pub(crate) at: Timestamp,
}

impl RefusalLog {
    /// Tells it to those who watch, or counts it where they have heard enough of this address.
    pub(crate) fn exceeded(&self, exceeded: &Exceeded<'_>) {
        if !tracing::enabled!(target: TARGET, tracing::Level::WARN) {
            return;
        }
        // By the address: names can be made up, one for each refusal.
        let address = exceeded.client.address();
        let sampled = self.security.count(address, exceeded.at);
        let (own, others): (Vec<_>, Vec<_>) =
            sampled.left_out.iter().partition(|left_out| left_out.whose == Whose::Client(address));
        others.into_iter().for_each(tell_left_out);
        if sampled.is_written {
            tell(exceeded, own.iter().map(|left_out| left_out.lines).sum());
        }
    }
}

fn tell(exceeded: &Exceeded<'_>, left_out: u64) {
    let Exceeded { client, service, endpoint, bucket, is_dry_run, .. } = *exceeded;
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

/// Of a client whose next event is not to be waited for, or of all over the bound.
pub(super) fn tell_left_out(left_out: &LeftOut) {
    let client = match left_out.whose {
        Whose::Client(address) => Some(Client::by_address(address)),
        Whose::All => None,
    };
    tracing::warn!(
        target: TARGET,
        event = "RateLimitExceededLeftOut",
        client = client.as_ref().map_or("*", Client::name),
        left_out = left_out.lines,
    );
}
