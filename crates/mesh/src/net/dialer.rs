//! Whom to call next. Every address that discovery or another peer names is called until it is
//! connected, for ever: sooner at first, later and later, never all nodes at one moment.

use hivemind_core::Timestamp;
use siphasher::sip::SipHasher13;
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::net::SocketAddr;
use std::time::Duration;

const SOONEST: Duration = Duration::from_millis(100);
const LATEST: Duration = Duration::from_secs(5);
/// An address that turned out to be this node's own is tried again only after this.
const ITSELF: Duration = Duration::from_secs(300);

/// How the last call of an address went.
#[derive(Clone, Copy, Debug)]
struct Tried {
    failures: u32,
    next: Timestamp,
    is_under_way: bool,
    is_own: bool,
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
        let untried = Tried { failures: 0, next: Timestamp::EPOCH, is_under_way: false, is_own: false };
        let tried = self.tried.entry(address).or_insert(untried);
        if tried.is_under_way || now < tried.next {
            return false;
        }
        tried.is_under_way = true;
        true
    }

    pub(super) fn succeeded(&mut self, address: SocketAddr, now: Timestamp) {
        // Should it break at once, it is not called at once.
        self.set(address, 0, now.saturating_add(SOONEST));
    }

    pub(super) fn failed(&mut self, address: SocketAddr, now: Timestamp) {
        let failures = self.tried.get(&address).map_or(1, |tried| tried.failures.saturating_add(1));
        let wait = SOONEST.saturating_mul(1 << failures.min(10)).min(LATEST);
        let mut hasher = SipHasher13::new_with_keys(self.seed, u64::from(failures));
        hasher.write(address.to_string().as_bytes());
        // Between a half and the whole of it.
        let share = u32::try_from(hasher.finish() % 512).unwrap_or(0) + 512;
        self.set(address, failures, now.saturating_add(wait * share / 1_024));
    }

    pub(super) fn is_itself(&mut self, address: SocketAddr, now: Timestamp) {
        let next = now.saturating_add(ITSELF);
        self.tried.insert(address, Tried { failures: 0, next, is_under_way: false, is_own: true });
    }

    /// Whether this node itself was found to answer there.
    pub(super) fn is_own(&self, address: SocketAddr) -> bool {
        self.tried.get(&address).is_some_and(|tried| tried.is_own)
    }

    fn set(&mut self, address: SocketAddr, failures: u32, next: Timestamp) {
        self.tried.insert(address, Tried { failures, next, is_under_way: false, is_own: false });
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
