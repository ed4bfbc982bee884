//! The storage that is configured: opened, waited for a moment, and followed from then on.

use super::changes::{Change, Changes};
use super::{SharedStore, Storage};
use crate::blocks::Blocks;
use crate::config::{Redis, Settings, Topology};
use crate::health::Health;
use crate::mesh::RunningMesh;
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

/// How long the start waits to hear whether the shared store is there: the first requests
/// shall be counted where all others are. A server that is down says so at once.
const WAITED_FOR: Duration = Duration::from_secs(2);

/// A storage, and the node of a mesh that it is in, if it is.
pub(crate) struct Opened {
    pub(crate) storage: Arc<Storage>,
    pub(crate) mesh: Option<Arc<RunningMesh>>,
}

/// Opens what is configured.
pub(crate) async fn open(settings: &Settings, health: &Arc<Health>) -> anyhow::Result<Opened> {
    let limiting = &settings.rate_limiting;
    let memory =
        MemoryStore::new(StoreOptions { max_keys: limiting.max_keys.get(), idle_ttl: limiting.idle_ttl });
    if let Some(mesh) = &settings.mesh {
        let mesh = RunningMesh::start(mesh, limiting).await?;
        // What a mesh cannot reach is decided by itself, so it is asked from the first moment on.
        let store = Arc::new(SharedStore::Mesh(mesh.store()));
        let storage = Storage::shared(store, memory, settings.storage.on_error);
        let storage = storage.heeding(Blocks::on(mesh.board())).watching(limiting.shadow_mode);
        let storage = Arc::new(storage);
        storage.meet();
        mesh.look(health);
        tokio::spawn(Arc::clone(&mesh).keep_health(Arc::clone(health)));
        return Ok(Opened { storage, mesh: Some(mesh) });
    }
    let storage = match &settings.storage.redis {
        Some(redis) => open_redis(redis, memory, settings, health).await?,
        None => Arc::new(Storage::in_memory(memory).watching(limiting.shadow_mode)),
    };
    Ok(Opened { storage, mesh: None })
}

async fn open_redis(
    redis: &Redis,
    memory: MemoryStore,
    settings: &Settings,
    health: &Arc<Health>,
) -> anyhow::Result<Arc<Storage>> {
    let store = RedisStore::start(options(redis)?, &tokio::runtime::Handle::current());
    let store = Box::new(store.context("`storage.redis`")?);
    let mut availability = store.availability();
    let store = Arc::new(SharedStore::Redis(store));
    let storage = Storage::shared(store, memory, settings.storage.on_error);
    let storage = Arc::new(storage.watching(settings.rate_limiting.shadow_mode));
    let known = availability.wait_for(|availability| *availability != Availability::Connecting);
    let _ = tokio::time::timeout(WAITED_FOR, known).await; // Whatever it is by then is told below.
    let mut seen = Seen::new(&storage, health);
    seen.look(&availability.borrow_and_update().clone());
    tokio::spawn(follow(seen, availability));
    Ok(storage)
}

fn options(redis: &Redis) -> anyhow::Result<RedisOptions> {
    let password = |key: &str, path: Option<&Path>| {
        path.map(|path| secrets::password(key, path).map(Password::new)).transpose()
    };
    let certificate = |key: &str, path: Option<&Path>| {
        path.map(|path| secrets::certificate(&format!("storage.redis.tls.{key}"), path)).transpose()
    };
    let mut options = RedisOptions::default();
    options.nodes = redis.urls.iter().map(|url| url.as_str().to_owned()).collect();
    options.topology = match &redis.topology {
        Topology::Single => hivemind_redis::Topology::Single,
        Topology::Cluster => hivemind_redis::Topology::Cluster,
        Topology::Sentinel { master_name, username, password_file } => hivemind_redis::Topology::Sentinel {
            master_name: master_name.clone(),
            username: username.clone(),
            password: password("storage.redis.sentinel_password_file", password_file.as_deref())?,
        },
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

/// What was last seen of the shared store.
struct Seen {
    storage: Arc<Storage>,
    health: Arc<Health>,
    clock: SystemClock,
    /// Why it is away, if it is.
    away: Option<String>,
    /// Since it was there once.
    changes: Changes,
    is_told_missing: bool,
}

async fn follow(mut seen: Seen, mut availability: watch::Receiver<Availability>) {
    loop {
        let untold_for = seen.changes.wait(seen.clock.now()).unwrap_or(Duration::MAX);
        match tokio::time::timeout(untold_for, availability.changed()).await {
            Ok(Ok(())) => {
                let now = availability.borrow_and_update().clone();
                seen.look(&now);
            }
            Ok(Err(_)) => return,
            Err(_) => seen.tell(),
        }
    }
}

impl Seen {
    fn new(storage: &Arc<Storage>, health: &Arc<Health>) -> Self {
        Self {
            storage: Arc::clone(storage),
            health: Arc::clone(health),
            clock: SystemClock,
            away: None,
            changes: Changes::default(),
            is_told_missing: false,
        }
    }

    /// Lets nobody ask a store that is away, and tells of a change.
    fn look(&mut self, now: &Availability) {
        self.away = match now {
            Availability::Up => None,
            Availability::Down { reason } => Some(reason.to_string()),
            _ => Some("it has not answered yet".to_owned()),
        };
        let met_before = self.storage.is_met();
        match &self.away {
            None => {
                self.storage.meet();
                self.health.store_is(None);
                self.changes.back();
                if !met_before {
                    tracing::info!("the shared store is there; limits hold for all nodes");
                }
            }
            Some(reason) if met_before => {
                self.storage.lose(reason.clone());
                let policies = "rules answer by `on_error`";
                self.health.store_is(Some(format!("the shared store is lost: {reason}; {policies}")));
                self.changes.lost();
            }
            Some(reason) => {
                let alone = "this node counts alone until it is";
                self.health.store_is(Some(format!("the shared store is not there: {reason}; {alone}")));
                if !std::mem::replace(&mut self.is_told_missing, true) {
                    tracing::warn!("the shared store is not there: {reason}; {alone}");
                }
            }
        }
        self.tell();
    }

    /// Tells what has changed, if it is time to.
    fn tell(&mut self) {
        let reason = self.away.as_deref().unwrap_or_default();
        match self.changes.tell(self.clock.now()) {
            None => {}
            Some(Change::Back) => tracing::info!("the shared store is back; limits hold for all nodes"),
            Some(Change::Lost { flapped: 0 }) => tracing::warn!(
                "the shared store is lost: {reason}; rules answer by `on_error` until it is back"
            ),
            Some(Change::Lost { flapped }) => tracing::warn!(
                flapped,
                "the shared store is lost: {reason}; rules answer by `on_error` until it is back. \
                 Times that it was lost and back since this was told last: {flapped}"
            ),
            Some(Change::Flapped { times }) => tracing::warn!(
                flapped = times,
                "the shared store is there. Times that it was lost and back since this was told last: {times}"
            ),
        }
    }
}

/// What is counted of the shared store.
pub(crate) fn metrics(storage: &Storage) -> SharedStoreMetrics {
    let (fallbacks, blocked) = (storage.fallbacks(), storage.blocks().refused());
    let store = match storage.shared_store().map(AsRef::as_ref) {
        Some(SharedStore::Redis(store)) => store,
        // A mesh is counted apart.
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
