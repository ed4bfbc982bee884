//! Reload of rules, configuration, certificates and keys: on file system events (write, rename, `ConfigMap` swap), on
//! request (SIGHUP or the admin API), and at an interval in case an event is missing. Replaced folders are watched again.
//! An invalid file changes nothing.

mod configuration;
mod keys;
mod rules;
mod tls;

pub(crate) use configuration::{ApplyRouting, Configuration, ConfigurationFile};
use hivemind_admin::ReloadRequest;
pub(crate) use keys::{KeyFiles, LOOKS_EVERY};
pub(crate) use rules::{RuleFiles, accepted, refused};
pub(crate) use tls::ServerTlsFiles;

use hivemind_core::{Clock, SystemClock, Timestamp};
use notify::event::{AccessKind, AccessMode, ModifyKind};
use notify::{Event, EventKind, RecursiveMode, Watcher};
use std::collections::BTreeSet;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::sync::{mpsc, oneshot};
use tokio::time::MissedTickBehavior;

/// One save causes several events; the files are read this long after the last one.
const SETTLE: Duration = Duration::from_millis(50);
/// Limit of that wait, in case another program constantly writes into the same folder.
const SETTLE_AT_MOST: Duration = Duration::from_secs(1);
/// How often the folders are compared with the watched ones, so that a folder that was removed and created again is
/// read within a second.
const RECHECK: Duration = Duration::from_millis(500);

/// Lower priority than the request path, but not the lowest: on a busy machine a check would never finish.
const NICE: i32 = 5;

/// Files that can be reloaded while requests are decided.
pub(crate) trait FollowedFiles: Send + 'static {
    /// The texts on disk, read once, so that the compared and the loaded text are the same.
    type Texts;
    /// Problems of the files.
    type Trouble: fmt::Display;

    /// Files and folders to watch for events; none if only the interval is used.
    fn paths(&self) -> Vec<PathBuf>;

    /// Reads the files, with a fingerprint that is equal for equal texts.
    fn read(&self) -> Result<(u64, Self::Texts), Self::Trouble>;

    /// Activates the texts as a whole and returns notes about them, or the reason why nothing changed.
    fn load(&mut self, texts: Self::Texts) -> Result<Vec<String>, Self::Trouble>;

    /// Reports that the files on disk are invalid and not active.
    fn refuse(&mut self, problems: &Self::Trouble);

    /// Called at each check with the time, for states that depend on it.
    fn passes(&mut self, _now: Timestamp) {}
}

/// Follows files and reloads them on events, requests, and at an interval.
pub(crate) struct Follower<F> {
    pub(crate) followed: F,
    /// The fingerprint of the initially loaded texts; none if they could not be read.
    pub(crate) loaded: Option<u64>,
    pub(crate) interval: Duration,
    pub(crate) requests: mpsc::Receiver<ReloadRequest>,
}

/// Why the files are checked.
enum Reason {
    Change,
    Request(ReloadRequest),
}

impl<F: FollowedFiles> Follower<F> {
    /// Follows the files until the process ends.
    pub(crate) async fn run(self) {
        let Self { followed, loaded, interval, mut requests } = self;
        let (sender, mut changes) = mpsc::channel(1);
        let mut watch = FolderWatch::new(&followed.paths(), &sender);
        let last_check = LastCheck { fingerprint: loaded, trouble: None };
        let files = Arc::new(Mutex::new(CheckedFiles { followed, last_check }));
        let mut net = tokio::time::interval(interval);
        net.tick().await; // The first tick completes immediately, and the files have just been loaded.
        let mut recheck = tokio::time::interval(RECHECK);
        recheck.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut reason = Reason::Change;
        loop {
            check(&files, reason).await;
            reason = loop {
                // A folder was replaced, and the old watch does not cover the new one. Changes between the last look
                // and the new watch have no event, so the files are read again.
                let paths = locked(&files).followed.paths();
                if tokio::task::block_in_place(|| watch.is_stale(&paths)) {
                    watch = FolderWatch::new(&paths, &sender);
                    break Reason::Change;
                }
                tokio::select! {
                    Some(request) = requests.recv() => break Reason::Request(request),
                    _ = net.tick() => break Reason::Change,
                    _ = recheck.tick() => {}
                    Some(()) = changes.recv() => {
                        let _ = tokio::time::timeout(SETTLE_AT_MOST, settled(&mut changes)).await;
                        break Reason::Change;
                    }
                }
            };
        }
    }
}

/// Checks the files on a thread of its own, with lower priority than those that serve requests: disks may be slow, and
/// many rules take long to parse.
async fn check<F: FollowedFiles>(files: &Arc<Mutex<CheckedFiles<F>>>, reason: Reason) {
    let (files, runtime) = (Arc::clone(files), tokio::runtime::Handle::current());
    let (running, ended) = oneshot::channel::<()>();
    let thread = std::thread::Builder::new().name("reload".to_owned()).spawn(move || {
        let _runtime = runtime.enter();
        // If this fails, the thread has normal priority.
        let _ = rustix::process::nice(NICE);
        let mut files = locked(&files);
        files.look(reason);
        files.followed.passes(SystemClock.now());
        drop(running);
    });
    match thread {
        Ok(_) => drop(ended.await), // An error: nothing is ever sent.
        Err(error) => {
            tracing::warn!(%error, "no thread to check files; they are checked at the reload interval");
        }
    }
}

fn locked<F>(files: &Mutex<CheckedFiles<F>>) -> MutexGuard<'_, CheckedFiles<F>> {
    files.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The files with the result of their last check.
struct CheckedFiles<F> {
    followed: F,
    last_check: LastCheck,
}

impl<F: FollowedFiles> CheckedFiles<F> {
    /// Loads the files if they changed since the last check, or if a reload was requested.
    fn look(&mut self, reason: Reason) {
        let last_check = &mut self.last_check;
        let asked = !matches!(reason, Reason::Change);
        let outcome = match self.followed.read() {
            Ok((fingerprint, _)) if !asked && Some(fingerprint) == last_check.fingerprint => return,
            Ok((fingerprint, texts)) => {
                *last_check = LastCheck { fingerprint: Some(fingerprint), trouble: None };
                self.followed.load(texts).inspect_err(|problems| self.followed.refuse(problems))
            }
            // Unreadable files may be readable at the next check, so the fingerprint is reset. The same
            // problem is reported once, not at each check.
            Err(problems) => {
                let trouble = Some(problems.to_string());
                if asked || last_check.trouble != trouble {
                    self.followed.refuse(&problems);
                }
                *last_check = LastCheck { fingerprint: None, trouble };
                Err(problems)
            }
        };
        if let Reason::Request(request) = reason {
            request.answer(outcome.map_err(|problems| problems.to_string()));
        }
    }
}

/// Result of the last check.
struct LastCheck {
    fingerprint: Option<u64>,
    /// Why the files could not be read.
    trouble: Option<String>,
}

/// Returns when no event has arrived for a while.
async fn settled(changes: &mut mpsc::Receiver<()>) {
    while tokio::time::timeout(SETTLE, changes.recv()).await.is_ok_and(|change| change.is_some()) {}
}

/// The folders of the files, watched for events. If that fails, the interval still finds changes.
struct FolderWatch {
    folders: Vec<WatchedFolder>,
    /// Whether a watched folder was removed or renamed; another one of that name may get its inode number.
    is_broken: Arc<AtomicBool>,
    _watcher: Option<notify::RecommendedWatcher>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct WatchedFolder {
    path: PathBuf,
    is_deep: bool,
    /// Device, inode and creation time; none if the folder does not exist.
    identity: Option<(u64, u64, Option<SystemTime>)>,
}

impl WatchedFolder {
    fn all(paths: &[PathBuf]) -> Vec<Self> {
        let folders: BTreeSet<(&Path, bool)> = paths.iter().map(|path| folder_of(path)).collect();
        let of = |(path, is_deep): (&Path, bool)| {
            let metadata = std::fs::metadata(path).ok();
            let identity = metadata.map(|of| (of.dev(), of.ino(), of.created().ok()));
            Self { path: path.to_owned(), is_deep, identity }
        };
        folders.into_iter().map(of).collect()
    }
}

impl FolderWatch {
    fn new(paths: &[PathBuf], changed: &mpsc::Sender<()>) -> Self {
        let (folders, is_broken) = (WatchedFolder::all(paths), Arc::<AtomicBool>::default());
        let watcher = watch(&folders, &is_broken, changed);
        Self { folders, is_broken, _watcher: watcher }
    }

    /// Whether a folder has been replaced, removed or created since the watch began.
    fn is_stale(&self, paths: &[PathBuf]) -> bool {
        self.is_broken.load(Ordering::Relaxed) || WatchedFolder::all(paths) != self.folders
    }
}

fn watch(
    folders: &[WatchedFolder],
    is_broken: &Arc<AtomicBool>,
    changed: &mpsc::Sender<()>,
) -> Option<notify::RecommendedWatcher> {
    if folders.is_empty() {
        return None;
    }
    let (changed, is_broken) = (changed.clone(), Arc::clone(is_broken));
    let roots: Vec<PathBuf> = folders.iter().map(|folder| folder.path.clone()).collect();
    let on_event = move |event: notify::Result<Event>| {
        if event.as_ref().is_ok_and(|event| removes(event, &roots)) {
            is_broken.store(true, Ordering::Relaxed);
        }
        if !event.is_ok_and(|event| is_reading(event.kind)) {
            let _ = changed.try_send(()); // A full channel means that a check is already pending.
        }
    };
    let unwatched = |folder: &Path, error: notify::Error| {
        let folder = folder.display();
        tracing::warn!(%error, %folder, "cannot watch the folder; changes are found at the reload interval");
    };
    let watcher = notify::recommended_watcher(on_event);
    let mut watcher = watcher.map_err(|error| unwatched(Path::new(""), error)).ok()?;
    for folder in folders {
        let depth = if folder.is_deep { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
        if let Err(error) = watcher.watch(&folder.path, depth) {
            unwatched(&folder.path, error);
        }
    }
    Some(watcher)
}

/// Whether the event ends the watch of one of these folders.
fn removes(event: &Event, watched: &[PathBuf]) -> bool {
    let is_removal = matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)));
    is_removal && event.paths.iter().any(|path| watched.contains(path))
}

/// The folder to watch for a path, and whether to include subfolders. A rename replaces the file itself, so its
/// folder is watched.
fn folder_of(path: &Path) -> (&Path, bool) {
    match path.parent() {
        _ if path.is_dir() => (path, true),
        Some(parent) if parent != Path::new("") => (parent, false),
        _ => (Path::new("."), false),
    }
}

/// Whether the event is only a read, which each check causes.
fn is_reading(kind: EventKind) -> bool {
    matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}
