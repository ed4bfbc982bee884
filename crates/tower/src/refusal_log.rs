//! The `RATE_LIMIT` line.

use hivemind_core::{ClientIp, Timestamp};

/// A refused request, as the log tells it.
#[derive(Clone, Copy, Debug)]
pub struct Refusal<'a> {
    /// The client's address; without one fail2ban is told nothing.
    pub address: Option<ClientIp>,
    /// What the client called this server: the `Host` header or the authority.
    pub host: &'a str,
    /// The path without its query, which may hold secrets.
    pub path: &'a str,
    /// When it was refused.
    pub at: Timestamp,
}

/// Where refusals are told to fail2ban.
#[derive(Debug, Default)]
pub struct RefusalLog {}

impl RefusalLog {
    /// Tells a refusal, or counts it where this client's were told often enough.
    pub fn refused(&self, refusal: &Refusal<'_>) {
        tracing::info!(target: "hivemind::rate_limit", "RATE_LIMIT path={}", refusal.path);
    }
}
