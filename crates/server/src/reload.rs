//! Rules follow their files: on a write, a rename, a `ConfigMap`'s swap, SIGHUP, and
//! at an interval as a net where no event comes. A broken file changes nothing.

use crate::config::{Problems, load_rules};
use crate::health::Health;
use crate::service::Service;
use notify::{RecursiveMode, Watcher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::signal::unix::Signal;
use tokio::sync::mpsc;

/// Events of one save come in a swarm; the last of them counts.
const SETTLE: Duration = Duration::from_millis(50);
/// Where something else writes into the same folder all the time, the swarm never ends.
const SETTLE_AT_MOST: Duration = Duration::from_secs(1);

/// Where rules come from and where they go.
pub(crate) struct Reloader {
    pub(crate) path: PathBuf,
    /// The [`fingerprint`] from before the rules were loaded first, so that no change is missed in between.
    pub(crate) loaded: u64,
    pub(crate) merge_domains: bool,
    pub(crate) interval: Duration,
    pub(crate) service: Arc<Service>,
    pub(crate) health: Arc<Health>,
}

impl Reloader {
    /// Follows the files for ever, and loads them anew at each of `hangups`.
    pub(crate) async fn run(self, mut hangups: Signal) {
        let (tell, mut changes) = mpsc::channel(1);
        let _watcher = watch(&self.path, tell);
        let mut net = tokio::time::interval(self.interval);
        net.tick().await; // The first comes at once, and the rules have just been loaded.
        let mut last = self.loaded;
        let mut asked = false;
        loop {
            // Files may be slow; the other tasks of this thread are not to wait for them.
            tokio::task::block_in_place(|| {
                let now = fingerprint(&self.path);
                if asked || now != last {
                    last = now;
                    self.reload();
                }
            });
            asked = tokio::select! {
                _ = hangups.recv() => true,
                _ = net.tick() => false,
                Some(()) = changes.recv() => {
                    let _ = tokio::time::timeout(SETTLE_AT_MOST, settled(&mut changes)).await;
                    false
                }
            };
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

/// Returns when no event has come for a while.
async fn settled(changes: &mut mpsc::Receiver<()>) {
    while tokio::time::timeout(SETTLE, changes.recv()).await.is_ok_and(|told| told.is_some()) {}
}

/// Says everywhere that the rules on disk are not in force.
pub(crate) fn refused(service: &Service, health: &Health, problems: &Problems) {
    service.stats().config_load_error.fetch_add(1, Ordering::Relaxed);
    health.rules_refused(problems.to_string());
    tracing::error!("the rules are refused, those from before stay in force:\n{problems}");
}

/// Tells of anything that happens beside the files. Without events the interval still finds changes.
fn watch(path: &Path, changed: mpsc::Sender<()>) -> Option<notify::RecommendedWatcher> {
    // A full channel means that a look is due already.
    let tell = move |_: notify::Result<notify::Event>| {
        let _ = changed.try_send(());
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

/// What the files contain, so that an event without a change loads nothing.
pub(crate) fn fingerprint(path: &Path) -> u64 {
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
    hasher.finish()
}
