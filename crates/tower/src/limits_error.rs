//! Why limits cannot be put in force, where the mistake is, and what to write instead.

use crate::bucket::LimitKind;
use hivemind_core::LimitError;

/// Limits that make no sense. Nothing of them is in force; what was before goes on.
///
/// ```
/// use hivemind_tower::{Limits, ServiceLimits};
///
/// let error = Limits::new().service(ServiceLimits::new("my shop")).check().unwrap_err();
/// assert!(error.to_string().starts_with("`my shop` cannot name a service: use 1 to 64 ASCII letters"));
/// assert_eq!(error.kind(), None); // It is no limit that is wrong.
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitsError {
    /// A number that no limit can have.
    #[error("the limit of {place}: {error}")]
    Limit {
        /// Whose limit.
        place: String,
        /// And of what.
        kind: LimitKind,
        /// What is wrong with it.
        error: LimitError,
    },
    /// A window limit that shall delay.
    #[error("the limit of {place}: only a token bucket can delay; leave out `delay` or the algorithm")]
    DelayedWindow {
        /// Whose limit.
        place: String,
        /// And of what.
        kind: LimitKind,
    },
    /// A limit that shall delay what cannot be held back.
    #[error("the limit of {place} can only refuse, since nothing waits for it; leave out `delay`")]
    Undelayable {
        /// Whose limit.
        place: String,
        /// And of what.
        kind: LimitKind,
    },
    /// A name that cannot stand in a header.
    #[error(
        "`{name}` cannot name a service: use 1 to 64 ASCII letters, digits, `-`, `_` and `.`, since it is told in headers"
    )]
    ServiceName {
        /// What was given, at most 64 characters of it.
        name: String,
    },
    /// A name that an endpoint cannot have.
    #[error("`{name}` cannot name an endpoint of `{service}`: {reason}")]
    EndpointName {
        /// Whose endpoint.
        service: String,
        /// What was given, at most 64 characters of it.
        name: String,
        /// Why not.
        reason: &'static str,
    },
    /// A pattern that is none.
    #[error(
        "the endpoint `{pattern}` of `{service}`: {reason}; write it like `/users/{{id}}` or `POST /login`"
    )]
    Pattern {
        /// Whose endpoint.
        service: String,
        /// What was given.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A limit that nothing would ever be charged to.
    #[error(
        "`{service}` has limits of its own, but the scope is global: every client has one bucket over all services; leave out the one or the other"
    )]
    GlobalScope {
        /// Whose limits.
        service: String,
    },
}

impl LimitsError {
    /// What the limit is on that is wrong, if a limit is.
    #[must_use]
    pub const fn kind(&self) -> Option<LimitKind> {
        match self {
            Self::Limit { kind, .. } | Self::DelayedWindow { kind, .. } | Self::Undelayable { kind, .. } => {
                Some(*kind)
            }
            Self::ServiceName { .. }
            | Self::EndpointName { .. }
            | Self::Pattern { .. }
            | Self::GlobalScope { .. } => None,
        }
    }
}
