//! Storage as the store of the HTTP layer, which has no rules: the default `on_error` applies.

use super::own_counters::OwnCounters;
use super::{OnError, Storage};
use crate::config::Settings;
use hivemind_core::store::KeySeed;
use hivemind_tower::RateLimiterBuilder;
use std::sync::Arc;
use std::time::Duration;

/// Maximum delay of a mesh tick on a busy machine.
const SLOW_TICK: Duration = Duration::from_secs(1);

/// Configures a limiter with the shared counters and the default `on_error`.
pub(crate) fn counting(
    builder: RateLimiterBuilder,
    storage: &Arc<Storage>,
    settings: &Settings,
    seed: KeySeed,
) -> RateLimiterBuilder {
    // Longer than the store's own timeout, otherwise the layer would give up before the fallback decides.
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
