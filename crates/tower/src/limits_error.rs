//! Errors of invalid limits, with the place and the remedy.

use crate::limit_kind::LimitKind;
use hivemind_core::LimitError;

/// Invalid limits. The previous limits stay active.
///
/// ```
/// use hivemind_tower::{Limits, ServiceLimits};
///
/// let error = Limits::new().service(ServiceLimits::new("my shop")).check().unwrap_err();
/// assert!(error.to_string().starts_with("`my shop` cannot name a service: use 1 to 64 ASCII letters"));
/// assert_eq!(error.kind(), None); // The name is wrong, not a limit.
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LimitsError {
    /// A value that a limit cannot have.
    #[error("the limit of {place}: {error}")]
    Limit {
        /// The service and endpoint of the limit.
        place: String,
        /// What the limit counts.
        kind: LimitKind,
        /// The reason.
        error: LimitError,
    },
    /// Delay mode on a window limit.
    #[error("the limit of {place}: only token buckets can delay; leave out `delay` or the algorithm")]
    DelayedWindow {
        /// The service and endpoint of the limit.
        place: String,
        /// What the limit counts.
        kind: LimitKind,
    },
    /// Delay mode on a limit whose requests cannot wait.
    #[error("the limit of {place} cannot delay; leave out `delay`")]
    Undelayable {
        /// The service and endpoint of the limit.
        place: String,
        /// What the limit counts.
        kind: LimitKind,
    },
    /// A service name that cannot be sent in a header.
    #[error(
        "`{name}` cannot name a service: use 1 to 64 ASCII letters, digits, `-`, `_` and `.`, because it is sent in headers"
    )]
    ServiceName {
        /// The given name, cut to 64 characters.
        name: String,
    },
    /// An invalid endpoint name.
    #[error("`{name}` cannot name an endpoint of `{service}`: {reason}")]
    EndpointName {
        /// The service of the endpoint.
        service: String,
        /// The given name, cut to 64 characters.
        name: String,
        /// The reason.
        reason: &'static str,
    },
    /// An invalid endpoint pattern.
    #[error(
        "the endpoint `{pattern}` of `{service}`: {reason}; write it like `/users/{{id}}` or `POST /login`"
    )]
    Pattern {
        /// The service of the endpoint.
        service: String,
        /// The given pattern.
        pattern: String,
        /// The reason.
        reason: String,
    },
    /// A service limit under global scope, which would never be charged.
    #[error(
        "`{service}` has limits of its own, but with global scope each client has one bucket for all services; leave out one of the two"
    )]
    GlobalScope {
        /// The service with limits of its own.
        service: String,
    },
}

impl LimitsError {
    /// What the invalid limit counts, if the error is about a limit.
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
