//! Why a note is not put up.

use std::fmt;

/// Why a note is not put up.
///
/// ```
/// use hivemind_core::Timestamp;
/// use hivemind_mesh::{Board, NotPosted};
///
/// let (yesterday, now) = (Timestamp::from_millis(0), Timestamp::from_millis(86_400_000));
/// let error = Board::new(None).post(b"block ada", yesterday, now).unwrap_err();
/// assert_eq!((error, error.to_string().as_str()), (NotPosted::Over, "its end is past"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotPosted {
    /// There are so many already.
    Full {
        /// How many hold at most.
        most: usize,
    },
    /// So many words are remembered, of those that were taken down as well, and the oldest of them still holds.
    Crowded {
        /// How many are remembered at most.
        most: usize,
    },
    /// Its text is too long.
    TooLong {
        /// How many bytes it may have.
        most: usize,
    },
    /// It would hold for too long.
    TooLate,
    /// It would have ended already.
    Over,
}

impl fmt::Display for NotPosted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { most } => write!(f, "there are {most} already: wait for some to end"),
            Self::Crowded { most } => write!(
                f,
                "{most} words are remembered, those that took something down included: they are forgotten after a week"
            ),
            Self::TooLong { most } => write!(f, "it has more than {most} bytes"),
            Self::TooLate => f.write_str("it is for longer than 366 days"),
            Self::Over => f.write_str("its end is past"),
        }
    }
}

impl std::error::Error for NotPosted {}
