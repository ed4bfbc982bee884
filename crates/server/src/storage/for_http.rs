//! The same counters for the HTTP layer, which knows no rules: what is said for all holds there.

use super::own_counters::OwnCounters;
use super::{OnError, Storage};
use crate::config::Settings;
use hivemind_core::store::KeySeed;
use hivemind_tower::RateLimiterBuilder;
use std::sync::Arc;
use std::time::Duration;

/// How late a mesh may notice that a time is over, on a machine that is busy.
const SLOW_TICK: Duration = Duration::from_secs(1);

/// A limiter that counts where everything else counts, and fails as everything else does.
pub(crate) fn counting(
    builder: RateLimiterBuilder,
    storage: &Arc<Storage>,
    settings: &Settings,
    seed: KeySeed,
) -> RateLimiterBuilder {
    // Longer than the store may take, or the layer would give up before the storage has decided otherwise.
    let patience = match (&settings.storage.redis, &settings.mesh) {
        (Some(redis), _) => redis.timeout * 2,
        (None, Some(mesh)) => mesh.ask_timeout * 10 + SLOW_TICK,
        (None, None) => {
            let (memory, blocks) = (Arc::clone(storage.memory()), Arc::clone(storage.blocks()));
            let own = Arc::new(OwnCounters { memory: Arc::clone(&memory), blocks });
            return builder.local_store(own, memory, seed);
        }
    };
    let builder = builder.store(Arc::clone(storage), seed).store_timeout(patience);
    if storage.on_error() == OnError::Closed { builder.fail_closed() } else { builder }
}
