//! Errors of rejected entries.

use std::fmt;

/// Why an entry is rejected.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_mesh::{MapHandle, EntryError};
///
/// let (yesterday, now) = (Timestamp::from_millis(0), Timestamp::from_millis(86_400_000));
/// let error = MapHandle::new(None).insert(b"block ada", yesterday, now).unwrap_err();
/// assert_eq!((error, error.to_string().as_str()), (EntryError::Over, "its end is past"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EntryError {
    /// The maximum number of entries is active.
    Full {
        /// How many may be active.
        most: usize,
    },
    /// The maximum number of writes is stored, tombstones included, and the oldest is still active.
    Crowded {
        /// How many are stored at most.
        most: usize,
    },
    /// Its text is too long.
    TooLong {
        /// How many bytes it may have.
        most: usize,
    },
    /// It would be active for too long.
    TooLate,
    /// It would have ended already.
    Over,
}

impl fmt::Display for EntryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { most } => write!(f, "{most} entries are active already; wait until some expire"),
            Self::Crowded { most } => {
                write!(f, "{most} entries are stored, removals included; removals are forgotten after a week")
            }
            Self::TooLong { most } => write!(f, "it has more than {most} bytes"),
            Self::TooLate => f.write_str("it is for longer than 366 days"),
            Self::Over => f.write_str("its end is past"),
        }
    }
}

impl std::error::Error for EntryError {}
