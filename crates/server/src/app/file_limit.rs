//! File descriptor limit: every connection needs a descriptor, and the usual soft limit is 1,024.

use crate::settings::Settings;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For listeners, logs and files.
const RESERVED: u64 = 256;

/// Raises the limit to what the settings may need, as far as this process may raise it.
pub(super) fn raise(settings: &Settings) {
    let needed = needed(settings);
    let before = getrlimit(Resource::Nofile);
    let Some(more) = raised(before, needed) else { return };
    let now = match setrlimit(Resource::Nofile, more) {
        Ok(()) => more.current,
        Err(_) => before.current,
    };
    if let Some(has) = now.filter(|has| *has < needed) {
        tracing::warn!(
            "this process may open {has} files and connections, but its settings need up to {needed}; raise `ulimit -n` \
             or systemd's `LimitNOFILE`, or lower `max_connections`: clients wait when all are in use"
        );
    }
}

/// The worst case: one upstream connection for each client connection.
fn needed(settings: &Settings) -> u64 {
    let of_calls = if settings.server.has_calls() { settings.server.calls.max_connections.get() } else { 0 };
    let of_gateway = settings.gateway.as_ref().map_or(0, |gateway| 2 * gateway.front.max_connections.get());
    (of_calls + of_gateway) as u64 + RESERVED
}

/// The soft limit raised to the hard limit, if it is lower than needed.
fn raised(now: Rlimit, needed: u64) -> Option<Rlimit> {
    now.current.filter(|has| *has < needed)?;
    Some(Rlimit { current: now.maximum, maximum: now.maximum })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails when a higher limit is lowered to what is needed.
    #[test]
    fn descriptor_limit_is_raised_only_when_too_low() {
        let limit = |current, maximum| Rlimit { current, maximum };
        assert_eq!(raised(limit(Some(1_024), Some(4_096)), 2_000), Some(limit(Some(4_096), Some(4_096))));
        assert_eq!(raised(limit(Some(1_024), None), 2_000), Some(limit(None, None)));
        assert_eq!(raised(limit(Some(2_000), Some(4_096)), 2_000), None);
        assert_eq!(raised(limit(None, None), 2_000), None);
    }
}
