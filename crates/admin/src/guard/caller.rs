//! Identity and permissions of a request.

use super::Reach;
use super::lists::{is_for_all, is_for_callers, is_for_strangers, is_sent};
use super::refusal::AccessRefusal;
use axum::http::Method;
use hivemind_tls::access::AccessGrant;
use std::fmt;
use std::sync::Arc;

/// Identity and permissions of a request.
#[derive(Clone)]
pub(crate) struct Caller {
    /// Whether it may act as an operator: the port is open, or it has authenticated.
    pub(super) is_operator: bool,
    /// The permissions of its API key.
    pub(crate) grant: Option<Arc<AccessGrant>>,
    pub(crate) who: CallerIdentity,
    /// Whether it may see clients and file names of this machine: not under a foreign host name.
    pub(crate) sees_clients: bool,
    /// Whether a browser sent it for another site's page, without authentication.
    pub(super) is_another_page: bool,
    /// The generations of the keys and tokens it was checked against.
    pub(crate) generations: [u64; 2],
}

/// How a request was authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallerIdentity {
    /// An operator token.
    Token,
    /// An API key.
    Key(Arc<AccessGrant>),
    /// Only by the listener it came through.
    Listener(Reach),
}

impl fmt::Display for CallerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token => f.write_str("token"),
            Self::Key(grant) => write!(f, "key {}", grant.name),
            Self::Listener(Reach::Network) => f.write_str("network"),
            Self::Listener(Reach::Loopback | Reach::Private) => f.write_str("private"),
            Self::Listener(Reach::Socket) => f.write_str("socket"),
        }
    }
}

impl Caller {
    pub(super) fn judge(&self, method: &Method, path: &str) -> Result<(), AccessRefusal> {
        if is_for_all(method, path) {
            return Ok(());
        }
        match (self.is_operator, &self.grant) {
            // The page could not read the response, but the request would spend.
            (true, _) if self.is_another_page && is_sent(path) => Err(AccessRefusal::AnotherPage),
            (true, _) if !self.sees_clients && !is_for_strangers(method, path) => Err(AccessRefusal::Outside),
            (true, _) => Ok(()),
            (false, Some(_)) if is_for_callers(path) => Ok(()),
            (false, Some(_)) => Err(AccessRefusal::NotAllowed),
            (false, None) => Err(AccessRefusal::Unknown),
        }
    }
}
