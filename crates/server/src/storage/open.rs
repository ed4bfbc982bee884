//! The storage that is configured, and whether it is there.

use super::Storage;
use crate::config::Settings;
use crate::health::Health;
use crate::telemetry::StoreFigures;
use hivemind_core::store::{MemoryStore, StoreOptions};
use std::sync::Arc;

/// Opens what is configured.
pub(crate) async fn open(settings: &Settings, health: &Arc<Health>) -> anyhow::Result<Arc<Storage>> {
    let limiting = &settings.rate_limiting;
    let memory = MemoryStore::new(StoreOptions {
        max_keys: limiting.max_keys.get(),
        idle_ttl: limiting.idle_ttl,
    });
    let _ = health;
    std::future::ready(()).await;
    Ok(Arc::new(Storage::in_memory(memory)))
}

/// What is counted of the shared store.
pub(crate) fn figures(storage: &Storage) -> StoreFigures {
    StoreFigures { is_up: true, fallbacks: storage.fallbacks(), ..StoreFigures::default() }
}
