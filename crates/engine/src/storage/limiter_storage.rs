//! Storage as the store of the HTTP layer, which has no rules: the default `on_error` applies.

use super::own_counters::OwnCounters;
use super::{OnError, Storage};
use hivemind_core::store::KeySeed;
use hivemind_tower::RateLimiterBuilder;
use std::sync::Arc;
use std::time::Duration;

/// Configures a limiter with the shared counters and the default `on_error`. `patience` limits the wait for the shared
/// store; none if counters are in this process.
pub fn counting(
    builder: RateLimiterBuilder,
    storage: &Arc<Storage>,
    patience: Option<Duration>,
    seed: KeySeed,
) -> RateLimiterBuilder {
    let Some(patience) = patience else {
        let (memory, blocks) = (Arc::clone(storage.memory()), Arc::clone(storage.blocks()));
        let own = Arc::new(OwnCounters { memory: Arc::clone(&memory), blocks });
        return builder.local_store(own, memory, seed);
    };
    let builder = builder.store(Arc::clone(storage), seed).store_timeout(patience);
    if storage.on_error() == OnError::Closed { builder.fail_closed() } else { builder }
}
