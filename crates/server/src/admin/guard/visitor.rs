//! Who asks, and what that opens.

use super::Reach;
use super::lists::{is_for_all, is_for_callers, is_for_strangers, is_sent};
use super::refusal::Refusal;
use axum::http::Method;
use hivemind_tls::access::Grant;
use std::fmt;
use std::sync::Arc;

/// Who asks, as far as it matters to a page.
#[derive(Clone)]
pub(in crate::admin) struct Visitor {
    /// Whether the port asks nobody, or has asked and knows it for an operator.
    pub(super) is_operator: bool,
    /// What the key opens that came with it.
    pub(in crate::admin) grant: Option<Arc<Grant>>,
    pub(in crate::admin) who: Who,
    /// Whether it may be told of clients, and of this machine's files: not by a name that is not this port's.
    pub(in crate::admin) sees_clients: bool,
    /// Whether a browser asks for the page of another site, and nothing that only its people have came with it.
    pub(super) is_another_page: bool,
    /// The keys and tokens that it was known by, as numbers that change with them.
    pub(in crate::admin) generations: [u64; 2],
}

/// By what somebody is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::admin) enum Who {
    /// One of the operators' tokens.
    Token,
    /// The key of this name.
    Key(Arc<Grant>),
    /// Where it comes from.
    Place(Reach),
}

impl fmt::Display for Who {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Token => f.write_str("token"),
            Self::Key(grant) => write!(f, "key {}", grant.name),
            Self::Place(Reach::Network) => f.write_str("network"),
            Self::Place(Reach::Loopback | Reach::Private) => f.write_str("private"),
            Self::Place(Reach::Socket) => f.write_str("socket"),
        }
    }
}

impl Visitor {
    pub(super) fn judge(&self, method: &Method, path: &str) -> Result<(), Refusal> {
        if is_for_all(method, path) {
            return Ok(());
        }
        match (self.is_operator, &self.grant) {
            // It could not read the answer, and would spend all the same.
            (true, _) if self.is_another_page && is_sent(path) => Err(Refusal::AnotherPage),
            (true, _) if !self.sees_clients && !is_for_strangers(method, path) => Err(Refusal::Outside),
            (true, _) => Ok(()),
            (false, Some(_)) if is_for_callers(path) => Ok(()),
            (false, Some(_)) => Err(Refusal::NotAllowed),
            (false, None) => Err(Refusal::Unknown),
        }
    }
}
