//! Rules follow their files: on a write, a rename, a `ConfigMap`'s swap, SIGHUP, and
//! at an interval as a net where no event comes. A broken file changes nothing.

use crate::config::{LoadedRules, Problems, RuleTexts};
use crate::health::Health;
use crate::service::Service;
use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecursiveMode, Watcher};
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
    /// The fingerprint of the rules that were loaded first; none if they could not be read.
    pub(crate) loaded: Option<u64>,
    pub(crate) merge_domains: bool,
    pub(crate) interval: Duration,
    pub(crate) service: Arc<Service>,
    pub(crate) health: Arc<Health>,
}

impl Reloader {
    /// Follows the files for ever, and loads them anew at each of `hangups`.
    pub(crate) async fn run(self, mut hangups: Signal) {
        let (tell, mut changes) = mpsc::channel(1);
        let mut watcher = watch(&self.path, tell.clone());
        let mut net = tokio::time::interval(self.interval);
        net.tick().await; // The first comes at once, and the rules have just been loaded.
        let mut seen = Seen { fingerprint: self.loaded, trouble: None };
        let mut asked = false;
        loop {
            // Files may be slow; the other tasks of this thread are not to wait for them.
            let was_in_trouble = seen.trouble.is_some();
            tokio::task::block_in_place(|| self.look(&mut seen, asked));
            // A folder that was away is another one now, and nobody watches it.
            if was_in_trouble && seen.trouble.is_none() {
                drop(watcher.take());
                watcher = watch(&self.path, tell.clone());
            }
            asked = tokio::select! {
                _ = hangups.recv() => true,
                _ = net.tick() => {
                    // Nor where it was away for less than a look.
                    drop(watcher.take());
                    watcher = watch(&self.path, tell.clone());
                    false
                }
                Some(()) = changes.recv() => {
                    let _ = tokio::time::timeout(SETTLE_AT_MOST, settled(&mut changes)).await;
                    false
                }
            };
        }
    }

    /// Loads the rules if they are not those that were seen last, or if it was `asked` to.
    fn look(&self, seen: &mut Seen, asked: bool) {
        match RuleTexts::read(&self.path) {
            Ok(texts) => {
                let fingerprint = Some(texts.fingerprint());
                if !asked && fingerprint == seen.fingerprint {
                    return;
                }
                *seen = Seen { fingerprint, trouble: None };
                match texts.parse(self.merge_domains) {
                    Ok(loaded) => {
                        accepted(&self.service, &self.health, loaded);
                        tracing::info!(path = %self.path.display(), "rules loaded");
                    }
                    Err(problems) => refused(&self.service, &self.health, &problems),
                }
            }
            // Files that cannot be read may be readable at the next look, so nothing counts as
            // seen; but what is the matter is told once, not at each look.
            Err(problems) => {
                let trouble = Some(problems.to_string());
                if asked || seen.trouble != trouble {
                    refused(&self.service, &self.health, &problems);
                }
                *seen = Seen { fingerprint: None, trouble };
            }
        }
    }
}

/// What was on disk at the last look.
struct Seen {
    fingerprint: Option<u64>,
    /// Why it could not be read.
    trouble: Option<String>,
}

/// Puts rules in force.
pub(crate) fn accepted(service: &Service, health: &Health, loaded: LoadedRules) {
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    service.reload(loaded.ruleset);
    health.rules_loaded();
    service.stats().config_load_success.fetch_add(1, Ordering::Relaxed);
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
    let tell = move |event: notify::Result<Event>| {
        if !event.is_ok_and(|event| is_reading(event.kind)) {
            let _ = changed.try_send(()); // A full channel means that a look is due already.
        }
    };
    // A rename puts another file in the place of the watched one, so its folder is watched, and that alone.
    let (folder, depth) = match path.parent() {
        _ if path.is_dir() => (path, RecursiveMode::Recursive),
        Some(parent) if parent != Path::new("") => (parent, RecursiveMode::NonRecursive),
        _ => (Path::new("."), RecursiveMode::NonRecursive),
    };
    let watcher = notify::recommended_watcher(tell).and_then(|mut watcher| {
        watcher.watch(folder, depth)?;
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
