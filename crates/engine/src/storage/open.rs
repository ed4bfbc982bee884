//! Opens the configured storage, and reports the availability of the shared store.

use super::connection_changes::{Change, ConnectionChanges};
use super::settings::{RedisSection, RedisTopology, StorageSection};
use super::{OnError, SharedStore, Storage};
use crate::block_list::BlockList;
use crate::health::Health;
use crate::mesh::{MeshSection, RunningMesh};
use crate::rate_limiting::RateLimiting;
use anyhow::Context;
use hivemind_core::store::{MemoryStore, StoreOptions};
use hivemind_core::{Clock, SystemClock};
use hivemind_redis::{
    Availability, ClockSource, LeaseOptions, Password, RedisOptions, RedisStore, TlsOptions,
};
use hivemind_telemetry::SharedStoreMetrics;
use hivemind_tls::secrets;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How long startup waits for the shared store, so that the first requests are counted there as well.
/// A refused connection ends the wait immediately.
const WAITED_FOR: Duration = Duration::from_secs(2);

/// The storage and the mesh node, if a mesh is configured.
pub struct OpenedStorage {
    pub storage: Arc<Storage>,
    pub mesh: Option<Arc<RunningMesh>>,
}

/// Opens the configured storage.
pub async fn open(
    limiting: &RateLimiting,
    section: &StorageSection,
    mesh: Option<&MeshSection>,
    health: &Arc<Health>,
) -> anyhow::Result<OpenedStorage> {
    let memory =
        MemoryStore::new(StoreOptions { max_keys: limiting.max_keys.get(), idle_ttl: limiting.idle_ttl });
    if let Some(mesh) = mesh {
        let mesh = RunningMesh::start(mesh, limiting).await?;
        // A mesh decides by itself about unreachable owners, so it is used from the start.
        let store = Arc::new(SharedStore::Mesh(mesh.store()));
        let storage = Storage::shared(store, memory, section.on_error);
        let storage = storage.with_block_list(BlockList::on(mesh.board())).watching(limiting.shadow_mode);
        let storage = Arc::new(storage);
        storage.set_connected();
        mesh.look(health);
        tokio::spawn(Arc::clone(&mesh).keep_health(Arc::clone(health)));
        return Ok(OpenedStorage { storage, mesh: Some(mesh) });
    }
    let storage = match &section.redis {
        Some(redis) => open_redis(redis, memory, (section.on_error, limiting.shadow_mode), health).await?,
        None => Arc::new(Storage::in_memory(memory).watching(limiting.shadow_mode)),
    };
    Ok(OpenedStorage { storage, mesh: None })
}

async fn open_redis(
    redis: &RedisSection,
    memory: MemoryStore,
    (on_error, shadow_mode): (OnError, bool),
    health: &Arc<Health>,
) -> anyhow::Result<Arc<Storage>> {
    let store = RedisStore::start(options(redis)?, &tokio::runtime::Handle::current());
    let store = Box::new(store.context("`storage.redis`")?);
    let mut availability = store.availability();
    let store = Arc::new(SharedStore::Redis(store));
    let storage = Storage::shared(store, memory, on_error);
    let storage = Arc::new(storage.watching(shadow_mode));
    let known = availability.wait_for(|availability| *availability != Availability::Connecting);
    let _ = tokio::time::timeout(WAITED_FOR, known).await; // `apply` below reports the state after the wait.
    let mut monitor = StoreMonitor::new(&storage, health);
    monitor.apply(&availability.borrow_and_update().clone());
    tokio::spawn(monitor_store(monitor, availability));
    Ok(storage)
}

fn options(redis: &RedisSection) -> anyhow::Result<RedisOptions> {
    let password = |key: &str, path: Option<&Path>| {
        path.map(|path| secrets::password(key, path).map(Password::new)).transpose()
    };
    let certificate = |key: &str, path: Option<&Path>| {
        path.map(|path| secrets::certificate(&format!("storage.redis.tls.{key}"), path)).transpose()
    };
    let mut options = RedisOptions::default();
    options.nodes = redis.urls.iter().map(|url| url.as_str().to_owned()).collect();
    options.topology = match &redis.topology {
        RedisTopology::Single => hivemind_redis::Topology::Single,
        RedisTopology::Cluster => hivemind_redis::Topology::Cluster,
        RedisTopology::Sentinel { master_name, username, password_file } => {
            hivemind_redis::Topology::Sentinel {
                master_name: master_name.clone(),
                username: username.clone(),
                password: password("storage.redis.sentinel_password_file", password_file.as_deref())?,
            }
        }
    };
    options.username.clone_from(&redis.username);
    options.password = password("storage.redis.password_file", redis.password_file.as_deref())?;
    let ca = certificate("ca", redis.tls.ca.as_deref())?;
    let cert = certificate("cert", redis.tls.cert.as_deref())?;
    let key = redis.tls.key.as_deref();
    let key = key.map(|path| secrets::private_key("storage.redis.tls.key", path)).transpose()?;
    if ca.is_some() || cert.is_some() {
        let mut tls = TlsOptions::default();
        tls.ca = ca;
        tls.client = cert.zip(key);
        options.tls = Some(tls);
    }
    options.prefix = redis.prefix.clone();
    options.timeout = redis.timeout;
    options.clock = if redis.server_clock { ClockSource::Server } else { ClockSource::Caller };
    options.over_cache = redis.over_cache;
    options.lease = redis.lease.as_ref().map(|lease| LeaseOptions::new(lease.slice.get(), lease.longest));
    Ok(options)
}

/// The last known state of the shared store.
struct StoreMonitor {
    storage: Arc<Storage>,
    health: Arc<Health>,
    clock: SystemClock,
    /// Why it is unavailable, if it is.
    away: Option<String>,
    /// Log throttle for changes after the first connection.
    changes: ConnectionChanges,
    is_missing_logged: bool,
}

async fn monitor_store(mut monitor: StoreMonitor, mut availability: watch::Receiver<Availability>) {
    loop {
        let unlogged_for = monitor.changes.wait(monitor.clock.now()).unwrap_or(Duration::MAX);
        match tokio::time::timeout(unlogged_for, availability.changed()).await {
            Ok(Ok(())) => {
                let now = availability.borrow_and_update().clone();
                monitor.apply(&now);
            }
            Ok(Err(_)) => return,
            Err(_) => monitor.log_change(),
        }
    }
}

impl StoreMonitor {
    fn new(storage: &Arc<Storage>, health: &Arc<Health>) -> Self {
        Self {
            storage: Arc::clone(storage),
            health: Arc::clone(health),
            clock: SystemClock,
            away: None,
            changes: ConnectionChanges::default(),
            is_missing_logged: false,
        }
    }

    /// Records the state, so that an unavailable store is not called, and logs a change.
    fn apply(&mut self, now: &Availability) {
        self.away = match now {
            Availability::Up => None,
            Availability::Down { reason } => Some(reason.to_string()),
            _ => Some("no response yet".to_owned()),
        };
        let was_connected = self.storage.was_connected();
        match &self.away {
            None => {
                self.storage.set_connected();
                self.health.set_store_problem(None);
                self.changes.back();
                if !was_connected {
                    tracing::info!("shared store connected; all nodes share their limits");
                }
            }
            Some(reason) if was_connected => {
                self.storage.set_lost(reason.clone());
                let policies = "rules decide by `on_error`";
                self.health.set_store_problem(Some(format!("shared store lost: {reason}; {policies}")));
                self.changes.lost();
            }
            Some(reason) => {
                let alone = "counting locally until it connects";
                self.health.set_store_problem(Some(format!("shared store unreachable: {reason}; {alone}")));
                if !std::mem::replace(&mut self.is_missing_logged, true) {
                    tracing::warn!("shared store unreachable: {reason}; {alone}");
                }
            }
        }
        self.log_change();
    }

    /// Logs a change, if the interval has passed.
    fn log_change(&mut self) {
        let reason = self.away.as_deref().unwrap_or_default();
        match self.changes.take_change(self.clock.now()) {
            None => {}
            Some(Change::Back) => tracing::info!("shared store reconnected; all nodes share their limits"),
            Some(Change::Lost { flapped: 0 }) => {
                tracing::warn!("shared store lost: {reason}; rules decide by `on_error` until it reconnects");
            }
            Some(Change::Lost { flapped }) => tracing::warn!(
                flapped,
                "shared store lost: {reason}; rules decide by `on_error` until it reconnects; \
                 lost and reconnected {flapped} times since the last message"
            ),
            Some(Change::Flapped { times }) => tracing::warn!(
                flapped = times,
                "shared store connected; lost and reconnected {times} times since the last message"
            ),
        }
    }
}

/// Metrics of the shared store.
pub fn metrics(storage: &Storage) -> SharedStoreMetrics {
    let (fallbacks, blocked) = (storage.fallbacks(), storage.blocks().refused());
    let store = match storage.shared_store().map(AsRef::as_ref) {
        Some(SharedStore::Redis(store)) => store,
        // A mesh has its own metrics.
        Some(SharedStore::Mesh(_)) | None => {
            return SharedStoreMetrics { is_up: true, fallbacks, blocked, ..SharedStoreMetrics::default() };
        }
    };
    let metrics = store.metrics();
    SharedStoreMetrics {
        is_up: store.is_available(),
        script_calls: metrics.script_calls,
        commands: metrics.round_trips,
        timeouts: metrics.timeouts,
        errors: metrics.errors,
        breaker_openings: metrics.breaker_openings,
        connections: metrics.connections,
        over_cache_hits: metrics.refused_from_cache,
        lease_hits: metrics.admitted_from_lease,
        fallbacks,
        blocked,
    }
}
