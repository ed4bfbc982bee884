//! Secret files: parsing, reloading, and the contents that are active.

use arc_swap::ArcSwap;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A larger file is rejected: it is probably the wrong one.
const MOST_BYTES: u64 = 1 << 20;

/// A parsed form of a secret file.
pub trait Contents: Sized {
    /// The setting that names the file.
    const SETTING: &'static str;
    /// What the file contains, for messages.
    const WHAT: &'static str;

    fn parse(text: &str) -> Result<Self, Fault>;

    /// Number of entries.
    fn count(&self) -> usize;
}

/// A fault in a secret file. It never quotes a line, which may contain a secret.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("line {line} {what}")]
    Line { line: usize, what: &'static str },
    #[error("has more than {most} lines; is it the right file?")]
    TooMany { most: usize },
    #[error("is not text; is it the right file?")]
    NoText,
    #[error("has more than {MOST_BYTES} bytes; is it the right file?")]
    TooLarge,
}

/// Why a secret file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error("`{setting}`: {} cannot be read: {cause}; check that the file exists and that this user can read it", file.display())]
    Unreadable { setting: &'static str, file: PathBuf, cause: io::Error },
    #[error("`{setting}`: {}: {fault}", file.display())]
    Faulty { setting: &'static str, file: PathBuf, fault: Fault },
}

/// A secret file and its active contents.
#[derive(Debug)]
pub struct SecretFile<T> {
    path: PathBuf,
    active: ArcSwap<T>,
    /// Increases with each change, for caches that depend on the contents.
    generation: AtomicU64,
}

impl<T: Contents> SecretFile<T> {
    pub fn open(path: &Path) -> Result<Self, AccessError> {
        let (path, active) = (path.to_owned(), ArcSwap::from_pointee(read(path)?));
        Ok(Self { path, active, generation: AtomicU64::new(0) })
    }

    /// Reads the file again and returns its number of entries. An unusable file changes nothing.
    pub fn reload(&self) -> Result<usize, AccessError> {
        let contents: T = read(&self.path)?;
        let count = contents.count();
        self.active.store(Arc::new(contents));
        // Incremented after the store: a reader that sees the new number also sees the new contents.
        self.generation.fetch_add(1, Ordering::Release);
        Ok(count)
    }

    pub fn active(&self) -> arc_swap::Guard<Arc<T>> {
        self.active.load()
    }

    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Warnings for the operator.
    pub fn warnings(&self) -> Vec<String> {
        let (path, setting, what) = (self.path.display(), T::SETTING, T::WHAT);
        let exposed = is_exposed(&self.path).then(|| {
            format!("`{setting}`: every user of this machine can read {path}; run `chmod o-r {path}`")
        });
        exposed
            .into_iter()
            .chain(self.is_empty().then(|| format!("`{setting}`: {path} has no {what}")))
            .collect()
    }

    /// Whether the file grants access to no caller at all.
    pub fn is_empty(&self) -> bool {
        self.active().count() == 0
    }

    /// Hashes the present state of the file, to detect changes.
    pub fn fingerprint(&self, into: &mut impl Hasher) {
        match text(&self.path) {
            Ok(text) => text.hash(into),
            Err(ReadFailure::Cause(error)) => error.to_string().hash(into),
            Err(ReadFailure::Fault(fault)) => fault.to_string().hash(into),
        }
        is_exposed(&self.path).hash(into);
    }
}

enum ReadFailure {
    Cause(io::Error),
    Fault(Fault),
}

fn read<T: Contents>(path: &Path) -> Result<T, AccessError> {
    let (file, setting) = (path.to_owned(), T::SETTING);
    let parsed = text(path).and_then(|text| T::parse(&text).map_err(ReadFailure::Fault));
    parsed.map_err(|unread| match unread {
        ReadFailure::Cause(cause) => AccessError::Unreadable { setting, file, cause },
        ReadFailure::Fault(fault) => AccessError::Faulty { setting, file, fault },
    })
}

fn text(path: &Path) -> Result<String, ReadFailure> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(ReadFailure::Cause)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(ReadFailure::Fault(Fault::TooLarge));
    }
    String::from_utf8(bytes).map_err(|_| ReadFailure::Fault(Fault::NoText))
}

fn is_exposed(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o004 != 0)
}
