//! File descriptor limit: every connection needs a descriptor, and the usual soft limit is 1,024.

use super::listeners::MAX_HTTP_CONNECTIONS;
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
    let server = &settings.server;
    let count = |listeners: &[bool]| listeners.iter().filter(|is_there| **is_there).count();
    let of_calls =
        count(&[server.grpc.is_some(), server.grpc_uds.is_some()]) * server.calls.max_connections.get();
    let http = [server.admin.is_some(), server.admin_uds.is_some(), server.metrics.is_some()];
    let of_http = count(&http) * MAX_HTTP_CONNECTIONS.get();
    let of_gateway = settings.gateway.as_ref().map_or(0, |gateway| 2 * gateway.front.max_connections.get());
    (of_calls + of_http + of_gateway) as u64 + RESERVED
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
