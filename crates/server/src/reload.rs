//! What is configured follows its files: on a write, a rename, a `ConfigMap`'s swap, a request (SIGHUP is
//! one, and the admin port takes them), and at an interval as a net where no event comes. A broken file changes nothing.

mod configuration;
mod keys;
mod request;
mod rules;
mod tls;

pub(crate) use configuration::{Configuration, ConfigurationFile, PutInForce};
pub(crate) use keys::{KeyFiles, LOOKS_EVERY};
pub(crate) use request::{Outcome, Reloads, Request};
pub(crate) use rules::{RuleFiles, accepted, refused};
pub(crate) use tls::TlsFiles;

use hivemind_core::{Clock, SystemClock, Timestamp};
use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecursiveMode, Watcher};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::mpsc;

/// Events of one save come in a swarm; the last of them counts.
const SETTLE: Duration = Duration::from_millis(50);
/// Where something else writes into the same folder all the time, the swarm never ends.
const SETTLE_AT_MOST: Duration = Duration::from_secs(1);

/// What is read from files and can be put in force while requests are decided.
pub(crate) trait Followed: Send + 'static {
    /// Everything on disk, read once: what is compared is what is loaded.
    type Texts;
    /// What is wrong with it.
    type Trouble: fmt::Display;

    /// The files, or folders of files, as they are named now, that the system tells of; none where looks alone do.
    fn paths(&self) -> Vec<PathBuf>;

    /// What is on disk, and a number that is equal for equal texts.
    fn read(&self) -> Result<(u64, Self::Texts), Self::Trouble>;

    /// Puts it in force, whole, and says what has to be known of it; or says why nothing changed.
    fn load(&mut self, texts: Self::Texts) -> Result<Vec<String>, Self::Trouble>;

    /// Says everywhere that what is on disk is not in force.
    fn refuse(&mut self, problems: &Self::Trouble);

    /// Told at each look what time it is: for what changes by that alone.
    fn passes(&mut self, _now: Timestamp) {}
}

/// Follows files, and loads them anew when it is told to.
pub(crate) struct Follower<F> {
    pub(crate) followed: F,
    /// The fingerprint of what was loaded first; none if it could not be read.
    pub(crate) loaded: Option<u64>,
    pub(crate) interval: Duration,
    pub(crate) requests: mpsc::Receiver<Request>,
}

/// Why to look at the files.
enum Reason {
    Change,
    Request(Request),
}

impl<F: Followed> Follower<F> {
    /// Follows the files for ever.
    pub(crate) async fn run(mut self) {
        let (tell, mut changes) = mpsc::channel(1);
        let mut watcher = watch(&self.followed.paths(), &tell);
        let mut net = tokio::time::interval(self.interval);
        net.tick().await; // The first comes at once, and everything has just been loaded.
        let mut seen = Seen { fingerprint: self.loaded, trouble: None };
        let mut reason = Reason::Change;
        loop {
            // Files may be slow; the other tasks of this thread are not to wait for them.
            let was_in_trouble = seen.trouble.is_some();
            tokio::task::block_in_place(|| self.look(&mut seen, reason));
            self.followed.passes(SystemClock.now());
            // A folder that was away is another one now, and nobody watches it.
            if was_in_trouble && seen.trouble.is_none() {
                drop(watcher.take());
                watcher = watch(&self.followed.paths(), &tell);
            }
            reason = tokio::select! {
                Some(request) = self.requests.recv() => Reason::Request(request),
                _ = net.tick() => {
                    // Nor where it was away for less than a look.
                    drop(watcher.take());
                    watcher = watch(&self.followed.paths(), &tell);
                    Reason::Change
                }
                Some(()) = changes.recv() => {
                    let _ = tokio::time::timeout(SETTLE_AT_MOST, settled(&mut changes)).await;
                    Reason::Change
                }
            };
        }
    }

    /// Loads what is on disk if it is not what was seen last, or if it was asked to.
    fn look(&mut self, seen: &mut Seen, reason: Reason) {
        let asked = !matches!(reason, Reason::Change);
        let outcome = match self.followed.read() {
            Ok((fingerprint, _)) if !asked && Some(fingerprint) == seen.fingerprint => return,
            Ok((fingerprint, texts)) => {
                *seen = Seen { fingerprint: Some(fingerprint), trouble: None };
                self.followed.load(texts).inspect_err(|problems| self.followed.refuse(problems))
            }
            // Files that cannot be read may be readable at the next look, so nothing counts as
            // seen; but what is the matter is told once, not at each look.
            Err(problems) => {
                let trouble = Some(problems.to_string());
                if asked || seen.trouble != trouble {
                    self.followed.refuse(&problems);
                }
                *seen = Seen { fingerprint: None, trouble };
                Err(problems)
            }
        };
        if let Reason::Request(request) = reason {
            request.answer(outcome.map_err(|problems| problems.to_string()));
        }
    }
}

/// What was on disk at the last look.
struct Seen {
    fingerprint: Option<u64>,
    /// Why it could not be read.
    trouble: Option<String>,
}

/// Returns when no event has come for a while.
async fn settled(changes: &mut mpsc::Receiver<()>) {
    while tokio::time::timeout(SETTLE, changes.recv()).await.is_ok_and(|told| told.is_some()) {}
}

/// Tells of anything that happens beside the files. Without events the interval still finds changes.
fn watch(paths: &[PathBuf], changed: &mpsc::Sender<()>) -> Option<notify::RecommendedWatcher> {
    if paths.is_empty() {
        return None;
    }
    let changed = changed.clone();
    let tell = move |event: notify::Result<Event>| {
        if !event.is_ok_and(|event| is_reading(event.kind)) {
            let _ = changed.try_send(()); // A full channel means that a look is due already.
        }
    };
    let unwatched = |folder: &Path, error: notify::Error| {
        let folder = folder.display();
        tracing::warn!(%error, %folder, "the folder cannot be watched; changes are found at the interval");
    };
    let folders: BTreeSet<(&Path, bool)> = paths.iter().map(|path| folder_of(path)).collect();
    let watcher = notify::recommended_watcher(tell);
    let mut watcher = watcher.map_err(|error| unwatched(Path::new(""), error)).ok()?;
    for (folder, is_deep) in folders {
        let depth = if is_deep { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
        if let Err(error) = watcher.watch(folder, depth) {
            unwatched(folder, error);
        }
    }
    Some(watcher)
}

/// Where to look for changes of a file, and whether also in what is below. A rename puts another file in the
/// place of the watched one, so its folder is watched, and that alone.
fn folder_of(path: &Path) -> (&Path, bool) {
    match path.parent() {
        _ if path.is_dir() => (path, true),
        Some(parent) if parent != Path::new("") => (parent, false),
        _ => (Path::new("."), false),
    }
}

/// Whether an event tells only that somebody reads, as every look of ours does.
fn is_reading(kind: EventKind) -> bool {
    matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}
