//! The same counters for the HTTP layer, which knows no rules: what is said for all holds there.

use super::{OnError, Storage};
use crate::config::Redis;
use hivemind_core::store::KeySeed;
use hivemind_tower::RateLimiterBuilder;
use std::sync::Arc;

/// A limiter that counts where everything else counts, and fails as everything else does.
pub(crate) fn counting(
    builder: RateLimiterBuilder,
    storage: &Arc<Storage>,
    redis: Option<&Redis>,
    seed: KeySeed,
) -> RateLimiterBuilder {
    let Some(redis) = redis else { return builder.memory_store(Arc::clone(storage.memory()), seed) };
    // Longer than Redis may take, or the layer would give up before the storage has fallen back.
    let builder = builder.store(Arc::clone(storage), seed).store_timeout(redis.timeout * 2);
    if storage.on_error() == OnError::Closed { builder.fail_closed() } else { builder }
}
