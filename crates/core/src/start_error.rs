//! Errors of starting a limiter or its sweep.

use crate::limit::LimitError;

/// A limiter could not start.
///
/// ```
/// use hivemind_core::{Limiter, LimiterOptions, Rules, SystemClock};
/// use std::time::Duration;
///
/// let options = LimiterOptions { sweep_interval: Duration::ZERO, ..LimiterOptions::default() };
/// let error = Limiter::with_clock(Rules::new(), SystemClock, options).err().unwrap();
/// assert_eq!(error.to_string(), "sweep interval is 0; use a longer one, such as 60 s");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An invalid limit.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// A sweep interval of zero.
    #[error("sweep interval is 0; use a longer one, such as 60 s")]
    ZeroSweepInterval,
    /// The system did not provide a thread for the sweep.
    #[error("cannot start the thread that removes idle keys: {0}; raise the limit on threads")]
    Thread(#[from] std::io::Error),
}
