//! Rules follow their files: on a write, a rename, a `ConfigMap`'s swap, SIGHUP, and
//! at an interval as a net where no event comes. A broken file changes nothing.

use crate::config::{Problems, load_rules};
use crate::health::Health;
use crate::service::Service;
use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecursiveMode, Watcher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// Events of one save come in a swarm; the last of them counts.
const SETTLE: Duration = Duration::from_millis(50);

/// A folder in which something happens all the time is looked at all the same.
const LONGEST_SETTLE: Duration = Duration::from_secs(1);

/// Where rules come from and where they go.
pub(crate) struct Reloader {
    pub(crate) path: PathBuf,
    pub(crate) merge_domains: bool,
    pub(crate) interval: Duration,
    pub(crate) service: Arc<Service>,
    pub(crate) health: Arc<Health>,
    /// What was in the files before they were loaded for the first time.
    pub(crate) seen: Fingerprint,
}

/// What told of changes from the moment on that it was made.
pub(crate) struct Changes {
    files: mpsc::Receiver<()>,
    _watcher: Option<notify::RecommendedWatcher>,
    hangups: Signal,
}

impl Changes {
    /// Begins to watch, so that nothing is missed from here on.
    pub(crate) fn of(path: &Path) -> std::io::Result<Self> {
        let (tell, files) = mpsc::channel(1);
        Ok(Self { files, _watcher: watch(path, tell), hangups: signal(SignalKind::hangup())? })
    }
}

impl Reloader {
    /// Follows the files for ever. The first look is at once: they may have changed while they were loaded.
    pub(crate) async fn run(mut self, mut changes: Changes) {
        let mut net = tokio::time::interval(self.interval);
        loop {
            let asked = tokio::select! {
                _ = changes.hangups.recv() => true,
                _ = net.tick() => false,
                Some(()) = changes.files.recv() => {
                    let _ = tokio::time::timeout(LONGEST_SETTLE, settled(&mut changes.files)).await;
                    false
                }
            };
            let now = Fingerprint::of(&self.path);
            if asked || now != self.seen {
                self.seen = now;
                self.reload();
            }
        }
    }

    fn reload(&self) {
        match load_rules(&self.path, self.merge_domains) {
            Ok(loaded) => {
                for warning in &loaded.warnings {
                    tracing::warn!("{warning}");
                }
                self.service.reload(loaded.ruleset);
                self.health.rules_loaded();
                self.service.stats().config_load_success.fetch_add(1, Ordering::Relaxed);
                tracing::info!(path = %self.path.display(), "rules loaded");
            }
            Err(problems) => refused(&self.service, &self.health, &problems),
        }
    }
}

/// Says everywhere that the rules on disk are not in force.
pub(crate) fn refused(service: &Service, health: &Health, problems: &Problems) {
    service.stats().config_load_error.fetch_add(1, Ordering::Relaxed);
    health.rules_refused(problems.to_string());
    tracing::error!("the rules are refused, those from before stay in force:\n{problems}");
}

/// Waits until nothing has been told for a while.
async fn settled(changes: &mut mpsc::Receiver<()>) {
    while tokio::time::timeout(SETTLE, changes.recv()).await.is_ok_and(|told| told.is_some()) {}
}

/// Tells of anything that happens beside the files. Without events the interval still finds changes.
fn watch(path: &Path, changed: mpsc::Sender<()>) -> Option<notify::RecommendedWatcher> {
    let tell = move |event: notify::Result<Event>| {
        if !event.is_ok_and(|event| is_reading(event.kind)) {
            let _ = changed.try_send(()); // A full channel means that a look is due already.
        }
    };
    // A rename puts another file in the place of the watched one, so the folder is watched.
    let folder = match path.parent() {
        _ if path.is_dir() => path,
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    let watcher = notify::recommended_watcher(tell).and_then(|mut watcher| {
        watcher.watch(folder, RecursiveMode::Recursive)?;
        Ok(watcher)
    });
    watcher
        .map_err(|error| tracing::warn!(%error, "the rules' folder cannot be watched; changes are found at the interval"))
        .ok()
}

/// Whether an event tells only that somebody reads, as every look of ours does.
fn is_reading(kind: EventKind) -> bool {
    matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

/// What the files contain, so that an event without a change loads nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint(u64);

impl Fingerprint {
    pub(crate) fn of(path: &Path) -> Self {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        match crate::config::rule_files_at(path) {
            Ok(files) => {
                for file in files {
                    file.hash(&mut hasher);
                    std::fs::read(&file).map_err(|error| error.to_string()).hash(&mut hasher);
                }
            }
            Err(error) => error.to_string().hash(&mut hasher),
        }
        Self(hasher.finish())
    }
}
