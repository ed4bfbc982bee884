//! Descriptors: every connection has one, and systems give a process 1,024 of them unless it asks for more.

use crate::config::Settings;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For listeners, logs, files that are read, and the like.
const BESIDE: u64 = 256;

/// Sees that there are as many as the settings may come to need, as far as this process may have them.
pub(super) fn provide(settings: &Settings) {
    let needed = needed(settings);
    let before = getrlimit(Resource::Nofile);
    let Some(more) = raised(before, needed) else { return };
    let now = match setrlimit(Resource::Nofile, more) {
        Ok(()) => more.current,
        Err(_) => before.current,
    };
    if let Some(has) = now.filter(|has| *has < needed) {
        tracing::warn!(
            "this process may have {has} files and connections open, and its settings allow for {needed}; raise \
             `ulimit -n` or systemd's `LimitNOFILE`, or lower `max_connections`: else clients wait when all are in use"
        );
    }
}

/// With one upstream's connection for each client's, which is the worst.
fn needed(settings: &Settings) -> u64 {
    let of_calls = if settings.server.has_calls() { settings.server.calls.max_connections.get() } else { 0 };
    let of_gateway = settings.gateway.as_ref().map_or(0, |gateway| 2 * gateway.front.max_connections.get());
    (of_calls + of_gateway) as u64 + BESIDE
}

/// The limit with as many as are to be had, where there are fewer than needed.
fn raised(now: Rlimit, needed: u64) -> Option<Rlimit> {
    now.current.filter(|has| *has < needed)?;
    Some(Rlimit { current: now.maximum, maximum: now.maximum })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Seen failing on: a limit that is lowered to what is needed.
    #[test]
    fn only_too_few_are_raised_to_what_is_to_be_had() {
        let limit = |current, maximum| Rlimit { current, maximum };
        assert_eq!(raised(limit(Some(1_024), Some(4_096)), 2_000), Some(limit(Some(4_096), Some(4_096))));
        assert_eq!(raised(limit(Some(1_024), None), 2_000), Some(limit(None, None)));
        assert_eq!(raised(limit(Some(2_000), Some(4_096)), 2_000), None);
        assert_eq!(raised(limit(None, None), 2_000), None);
    }
}
