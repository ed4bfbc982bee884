//! A file of secrets, and what of it is in force.

use arc_swap::ArcSwap;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A file of secrets that is larger than this is another file.
const MOST_BYTES: u64 = 1 << 20;

/// What such a file can be read as.
pub trait Contents: Sized {
    /// The setting that names it.
    const SETTING: &'static str;
    /// What is in it.
    const WHAT: &'static str;

    fn parse(text: &str) -> Result<Self, Fault>;

    /// How many of them there are.
    fn count(&self) -> usize;
}

/// What is wrong in a file. No line is quoted: a secret may be in it.
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

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    #[error("`{setting}`: {} cannot be read: {cause}; see that the file is there and that this user may read it", file.display())]
    Unreadable { setting: &'static str, file: PathBuf, cause: io::Error },
    #[error("`{setting}`: {}: {fault}", file.display())]
    Faulty { setting: &'static str, file: PathBuf, fault: Fault },
}

/// A file of secrets, and what of it is in force.
#[derive(Debug)]
pub struct SecretFile<T> {
    path: PathBuf,
    in_force: ArcSwap<T>,
    /// Another for other contents: whoever remembers something of them looks at this.
    generation: AtomicU64,
}

impl<T: Contents> SecretFile<T> {
    pub fn open(path: &Path) -> Result<Self, AccessError> {
        let (path, in_force) = (path.to_owned(), ArcSwap::from_pointee(read(path)?));
        Ok(Self { path, in_force, generation: AtomicU64::new(0) })
    }

    /// Puts in force what the file is now, and says how many are in it. One that cannot be used changes nothing.
    pub fn reload(&self) -> Result<usize, AccessError> {
        let contents: T = read(&self.path)?;
        let count = contents.count();
        self.in_force.store(Arc::new(contents));
        // After the contents: who sees this number sees them, too.
        self.generation.fetch_add(1, Ordering::Release);
        Ok(count)
    }

    pub fn in_force(&self) -> arc_swap::Guard<Arc<T>> {
        self.in_force.load()
    }

    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// What whoever runs this should know.
    pub fn warnings(&self) -> Vec<String> {
        let (path, setting, what) = (self.path.display(), T::SETTING, T::WHAT);
        let exposed = is_exposed(&self.path).then(|| {
            format!("`{setting}`: every user of this machine can read {path}; `chmod o-r {path}` ends that")
        });
        exposed
            .into_iter()
            .chain(self.is_empty().then(|| format!("`{setting}`: {path} has no {what}")))
            .collect()
    }

    /// Whether it opens nothing to anybody.
    pub fn is_empty(&self) -> bool {
        self.in_force().count() == 0
    }

    /// What the file is at the moment.
    pub fn fingerprint(&self, into: &mut impl Hasher) {
        match text(&self.path) {
            Ok(text) => text.hash(into),
            Err(Unread::Cause(error)) => error.to_string().hash(into),
            Err(Unread::Fault(fault)) => fault.to_string().hash(into),
        }
        is_exposed(&self.path).hash(into);
    }
}

enum Unread {
    Cause(io::Error),
    Fault(Fault),
}

fn read<T: Contents>(path: &Path) -> Result<T, AccessError> {
    let (file, setting) = (path.to_owned(), T::SETTING);
    let parsed = text(path).and_then(|text| T::parse(&text).map_err(Unread::Fault));
    parsed.map_err(|unread| match unread {
        Unread::Cause(cause) => AccessError::Unreadable { setting, file, cause },
        Unread::Fault(fault) => AccessError::Faulty { setting, file, fault },
    })
}

fn text(path: &Path) -> Result<String, Unread> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(Unread::Cause)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(Unread::Fault(Fault::TooLarge));
    }
    String::from_utf8(bytes).map_err(|_| Unread::Fault(Fault::NoText))
}

fn is_exposed(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.permissions().mode() & 0o004 != 0)
}
