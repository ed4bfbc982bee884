//! Whom to call next. Every address that discovery or another peer names is called until it is
//! connected, for ever: sooner at first, later and later, never all nodes at one moment.

use super::link::Transport;
use crate::owner::NodeId;
use hivemind_core::Timestamp;
use siphasher::sip::SipHasher13;
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::net::SocketAddr;
use std::time::Duration;

const SOONEST: Duration = Duration::from_millis(100);
const LATEST: Duration = Duration::from_secs(5);
/// How long datagrams have before TCP is tried as well, and where they did not get through the last time.
const HEAD_START: Duration = Duration::from_millis(700);
const SHORT_START: Duration = Duration::from_millis(50);
/// How long a peer is reached by TCP before datagrams are tried again, at first.
pub(super) const DATAGRAMS_AGAIN: Duration = Duration::from_secs(10);
/// An address that turned out to be this node's own is tried again only after this.
const ITSELF: Duration = Duration::from_secs(300);

/// How the last call of an address went.
#[derive(Clone, Debug, Default)]
struct Tried {
    failures: u32,
    next: Timestamp,
    is_under_way: bool,
    /// Who answered there, and when: the node may have another address for itself.
    answered: Option<(Timestamp, NodeId)>,
    /// Whether only TCP got through.
    by_tcp: bool,
}

/// What is known of each address that was called.
#[derive(Debug)]
pub(super) struct Dialer {
    seed: u64,
    tried: BTreeMap<SocketAddr, Tried>,
}

impl Dialer {
    /// `seed` tells nodes apart, so that their waits differ.
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, tried: BTreeMap::new() }
    }

    /// Whether an address is to be called now; if so, it counts as being called until it is told how it went.
    pub(super) fn is_due(&mut self, address: SocketAddr, now: Timestamp) -> bool {
        let tried = self.tried.entry(address).or_default();
        // A wait that is longer than any is one of a clock that was set back.
        let waits = tried.next.since(now);
        if tried.is_under_way || waits > Duration::ZERO && waits <= ITSELF {
            return false;
        }
        tried.is_under_way = true;
        true
    }

    /// This node answered there, be it this one itself.
    pub(super) fn answered_by(&mut self, address: SocketAddr, name: NodeId, now: Timestamp, is_itself: bool) {
        // Should it break at once, it is not called at once.
        let next = now.saturating_add(if is_itself { ITSELF } else { SOONEST });
        let tried = self.tried.entry(address).or_default();
        *tried = Tried { next, answered: Some((now, name)), by_tcp: tried.by_tcp, ..Tried::default() };
    }

    /// By what an address was reached: where only TCP got through it has no long wait for datagrams the next time.
    pub(super) fn reached_by(&mut self, address: SocketAddr, transport: Transport) {
        self.tried.entry(address).or_default().by_tcp = transport == Transport::Tcp;
    }

    pub(super) fn head_start(&self, address: SocketAddr) -> Duration {
        if self.tried.get(&address).is_some_and(|tried| tried.by_tcp) { SHORT_START } else { HEAD_START }
    }

    /// Says how often that has happened in a row.
    pub(super) fn failed(&mut self, address: SocketAddr, now: Timestamp) -> u32 {
        let tried = self.tried.entry(address).or_default();
        tried.failures = tried.failures.saturating_add(1);
        let wait = SOONEST.saturating_mul(1 << tried.failures.min(10)).min(LATEST);
        let mut hasher = SipHasher13::new_with_keys(self.seed, u64::from(tried.failures));
        hasher.write(address.to_string().as_bytes());
        // Between a half and the whole of it.
        let share = u32::try_from(hasher.finish() % 512).unwrap_or(0) + 512;
        (tried.next, tried.is_under_way) = (now.saturating_add(wait * share / 1_024), false);
        tried.failures
    }

    /// A peer that is reached by TCP is still not reached by datagrams. They are tried later and later.
    pub(super) fn datagrams_failed(&mut self, address: SocketAddr, now: Timestamp) {
        let tried = self.tried.entry(address).or_default();
        tried.failures = tried.failures.saturating_add(1);
        let wait = DATAGRAMS_AGAIN.saturating_mul(1 << tried.failures.min(10)).min(ITSELF);
        (tried.next, tried.is_under_way) = (now.saturating_add(wait), false);
    }

    /// Who answered there, if no call has failed since.
    pub(super) fn expected(&self, address: SocketAddr) -> Option<NodeId> {
        let tried = self.tried.get(&address).filter(|tried| tried.failures == 0)?;
        tried.answered.as_ref().map(|(_, name)| name.clone())
    }

    /// Who last answered there, and when.
    pub(super) fn answered(&self, address: SocketAddr) -> Option<(Timestamp, NodeId)> {
        self.tried.get(&address)?.answered.clone()
    }

    /// Forgets addresses that nobody names any more.
    pub(super) fn keep_only(&mut self, named: impl Fn(&SocketAddr) -> bool) {
        self.tried.retain(|address, tried| tried.is_under_way || named(address));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(1_000_000 + millis)
    }

    #[test]
    fn a_dead_address_is_called_for_ever_and_never_later_than_the_longest_wait() {
        let address = SocketAddr::from(([192, 0, 2, 1], 9));
        let mut dialer = Dialer::new(7);
        let mut now = at(0);
        for _ in 0..100 {
            assert!(dialer.is_due(address, now));
            assert!(!dialer.is_due(address, now), "it is being called already");
            dialer.failed(address, now);
            assert!(!dialer.is_due(address, now));
            now = now.saturating_add(LATEST);
        }
    }

    #[test]
    fn nodes_that_fail_together_do_not_call_again_together() {
        let address = SocketAddr::from(([192, 0, 2, 1], 9));
        let waits: std::collections::BTreeSet<_> = (0..20)
            .map(|seed| {
                let mut dialer = Dialer::new(seed);
                for _ in 0..6 {
                    dialer.failed(address, at(0));
                }
                (0..6_000).find(|millis| dialer.is_due(address, at(*millis)))
            })
            .collect();
        assert!(waits.len() > 15, "{waits:?}");
    }
}
