//! Client addresses that recently had an authenticated connection: they may use the reserve of a listener.

use hivemind_core::{ClientIp, Timestamp};
use std::collections::{HashMap, VecDeque};
use std::time::Duration;

/// A client is remembered for this long after its last authenticated connection has closed.
const REMEMBERED_FOR: Duration = Duration::from_secs(60 * 60);
/// Maximum number of remembered clients; the oldest are forgotten first.
const MAX_CLIENTS: usize = 4_096;

/// Remembered clients, bounded in number and time.
#[derive(Debug, Default)]
pub(super) struct KnownClients {
    until: HashMap<ClientIp, Timestamp>,
    /// In order of time. A client that was remembered again has several entries; the last one counts.
    queue: VecDeque<(Timestamp, ClientIp)>,
}

impl KnownClients {
    pub(super) fn contains(&self, client: ClientIp, now: Timestamp) -> bool {
        self.until.get(&client).is_some_and(|until| *until > now)
    }

    pub(super) fn remember(&mut self, client: ClientIp, now: Timestamp) {
        let until = now.saturating_add(REMEMBERED_FOR);
        self.until.insert(client, until);
        self.queue.push_back((until, client));
        while let Some((until, client)) = self.queue.front().copied()
            && (until <= now || self.queue.len() > MAX_CLIENTS)
        {
            self.queue.pop_front();
            if self.until.get(&client) == Some(&until) {
                self.until.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(number: u32) -> ClientIp {
        ClientIp::from(std::net::Ipv4Addr::from_bits(number))
    }

    // Fails when a client is forgotten by its first entry, and when the number or the time is unbounded.
    #[test]
    fn known_clients_are_bounded_in_number_and_time() {
        let mut known = KnownClients::default();
        let start = Timestamp::from_millis(1);
        let halfway = start.saturating_add(REMEMBERED_FOR / 2);
        known.remember(client(0), start);
        known.remember(client(0), halfway);
        known.remember(client(1), start.saturating_add(REMEMBERED_FOR));
        assert!(known.contains(client(0), start.saturating_add(REMEMBERED_FOR)));
        assert!(!known.contains(client(0), halfway.saturating_add(REMEMBERED_FOR)));
        for number in 0..3 * u32::try_from(MAX_CLIENTS).unwrap() {
            known.remember(client(number), halfway);
            assert!(known.contains(client(number), halfway), "{number}");
        }
        assert!(!known.contains(client(0), halfway));
        assert_eq!((known.until.len(), known.queue.len()), (MAX_CLIENTS, MAX_CLIENTS));
    }
}
