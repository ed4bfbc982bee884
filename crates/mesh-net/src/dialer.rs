//! Whom to call next. Every address that discovery or another peer names is called until it is
//! connected, for ever: sooner at first, later and later, never all nodes at one moment, and
//! never more than so many at a time.

use super::link::Transport;
use hivemind_core::Timestamp;
use hivemind_mesh::NodeId;
use siphasher::sip::SipHasher13;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::net::SocketAddr;
use std::time::Duration;

/// The most calls under way at one time: whoever names addresses, a call is a socket and a packet to a place of
/// somebody else's choice.
pub(super) const MOST_CALLS: usize = 64;

const SOONEST: Duration = Duration::from_millis(100);
const LATEST: Duration = Duration::from_secs(5);
/// How long datagrams have before TCP is tried as well, and where they did not get through the last time.
const HEAD_START: Duration = Duration::from_millis(700);
const SHORT_START: Duration = Duration::from_millis(50);
/// How long a peer is reached by TCP before datagrams are tried again, at first.
const DATAGRAMS_AGAIN: Duration = Duration::from_secs(10);
/// After how long at most they are; after how long an address is tried again that turned out to be this node's own.
const SELDOM: Duration = Duration::from_secs(300);
/// An address that only multicast names, where so many calls have failed in a row, is called seldom: anybody on the
/// network can name any.
const VAIN_CALLS: u32 = 10;
/// An address that cannot be reached is told of at this failure in a row, and of so many reasons at most.
const TOLD_AT: u32 = 3;
const MOST_REASONS: usize = 4;

/// Until when something waits: by when that began, so that a clock that is set back ends it.
#[derive(Clone, Copy, Debug, Default)]
struct Wait {
    from: Timestamp,
    span: Duration,
}

impl Wait {
    fn is_over(self, now: Timestamp) -> bool {
        now < self.from || now.since(self.from) >= self.span
    }
}

/// How the last call of an address went.
#[derive(Clone, Debug, Default)]
struct Tried {
    failures: u32,
    wait: Wait,
    is_under_way: bool,
    /// The same of datagrams to a peer that is reached by TCP: they may never get through, and that holds up no call.
    datagram_failures: u32,
    datagram_wait: Wait,
    tries_datagrams: bool,
    /// Who answered there, and when: the node may have another address for itself.
    answered: Option<(Timestamp, NodeId)>,
    /// Whether only TCP got through.
    by_tcp: bool,
    /// Why the last call failed, and the reasons that were told since somebody answered there.
    reason: Option<String>,
    told: BTreeSet<String>,
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
        if tried.is_under_way || !tried.wait.is_over(now) {
            return false;
        }
        tried.is_under_way = true;
        true
    }

    /// Which addresses are to be called now, at most so many: those that only multicast names after all others,
    /// and of each kind those first that were not called for longest.
    pub(super) fn due(
        &mut self,
        targets: impl IntoIterator<Item = (SocketAddr, bool)>,
        places: usize,
        now: Timestamp,
    ) -> Vec<SocketAddr> {
        let mut order: Vec<_> = targets
            .into_iter()
            .map(|(address, is_announced)| {
                let last = self.tried.get(&address).map(|tried| tried.wait.from);
                (is_announced, last, address)
            })
            .collect();
        order.sort_unstable();
        let due =
            order.into_iter().map(|(_, _, address)| address).filter(|address| self.is_due(*address, now));
        due.take(places).collect()
    }

    /// Whether datagrams are to be tried to an address that is connected by TCP since a moment.
    pub(super) fn datagrams_are_due(
        &mut self,
        address: SocketAddr,
        since: Timestamp,
        now: Timestamp,
    ) -> bool {
        let tried = self.tried.entry(address).or_default();
        let has_settled = Wait { from: since, span: DATAGRAMS_AGAIN }.is_over(now);
        if tried.tries_datagrams || !has_settled || !tried.datagram_wait.is_over(now) {
            return false;
        }
        tried.tries_datagrams = true;
        true
    }

    /// This node answered there, be it this one itself.
    pub(super) fn answered_by(&mut self, address: SocketAddr, name: NodeId, now: Timestamp, is_itself: bool) {
        // Should it break at once, it is not called at once.
        let span = if is_itself { SELDOM } else { SOONEST };
        let tried = self.tried.entry(address).or_default();
        (tried.failures, tried.is_under_way) = (0, false);
        tried.wait = Wait { from: now, span };
        tried.answered = Some((now, name));
        (tried.reason, tried.told) = (None, BTreeSet::new());
    }

    /// By what an address was reached: where only TCP got through it has no long wait for datagrams the next time.
    pub(super) fn reached_by(&mut self, address: SocketAddr, transport: Transport) {
        let tried = self.tried.entry(address).or_default();
        tried.by_tcp = transport == Transport::Tcp;
        if transport == Transport::Quic {
            (tried.datagram_failures, tried.datagram_wait) = (0, Wait::default());
            tried.tries_datagrams = false;
        }
    }

    pub(super) fn head_start(&self, address: SocketAddr) -> Duration {
        if self.tried.get(&address).is_some_and(|tried| tried.by_tcp) { SHORT_START } else { HEAD_START }
    }

    /// A call came to nothing. `is_announced` says that only multicast names the address.
    pub(super) fn failed(&mut self, address: SocketAddr, now: Timestamp, is_announced: bool) {
        let seed = self.seed;
        let tried = self.tried.entry(address).or_default();
        tried.failures = tried.failures.saturating_add(1);
        let is_vain = is_announced && tried.failures >= VAIN_CALLS;
        let longest = if is_vain { SELDOM } else { later(SOONEST, tried.failures, LATEST) };
        let span = some_of(longest, seed, tried.failures, address);
        (tried.wait, tried.is_under_way) = (Wait { from: now, span }, false);
    }

    /// Why it did. Says whether an operator should know: once for each reason, if it goes on.
    pub(super) fn failed_because(&mut self, address: SocketAddr, reason: &str) -> bool {
        let Some(tried) = self.tried.get_mut(&address) else { return false };
        tried.reason = Some(reason.to_owned());
        let is_told = tried.failures >= TOLD_AT && tried.told.len() < MOST_REASONS;
        is_told && tried.told.insert(reason.to_owned())
    }

    /// Why the last call of an address failed, if it did.
    pub(super) fn reason(&self, address: SocketAddr) -> Option<&str> {
        self.tried.get(&address)?.reason.as_deref()
    }

    /// A peer that is reached by TCP is still not reached by datagrams. They are tried later and later.
    pub(super) fn datagrams_failed(&mut self, address: SocketAddr, now: Timestamp) {
        let seed = self.seed;
        let tried = self.tried.entry(address).or_default();
        tried.datagram_failures = tried.datagram_failures.saturating_add(1);
        let longest = later(DATAGRAMS_AGAIN, tried.datagram_failures, SELDOM);
        let span = some_of(longest, seed, tried.datagram_failures, address);
        (tried.datagram_wait, tried.tries_datagrams) = (Wait { from: now, span }, false);
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
        self.tried.retain(|address, tried| tried.is_under_way || tried.tries_datagrams || named(address));
    }
}

/// Twice as long each time.
fn later(first: Duration, failures: u32, longest: Duration) -> Duration {
    first.saturating_mul(1 << failures.min(12)).min(longest)
}

/// Between a half and the whole of a wait, another part on each node.
fn some_of(longest: Duration, seed: u64, failures: u32, address: SocketAddr) -> Duration {
    let mut hasher = SipHasher13::new_with_keys(seed, u64::from(failures));
    hasher.write(address.to_string().as_bytes());
    let share = u32::try_from(hasher.finish() % 512).unwrap_or(0) + 512;
    longest * share / 1_024
}

#[cfg(test)]
mod tests;
