//! Schedule of outbound connection attempts. Every address that discovery or a peer names is dialed until it is
//! connected, with exponential backoff, jitter per node, and a limit on concurrent attempts.

use super::link::Transport;
use hivemind_core::Timestamp;
use hivemind_mesh::NodeId;
use siphasher::sip::SipHasher13;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::net::SocketAddr;
use std::time::Duration;

/// Maximum number of concurrent dials. Peers and multicast can name arbitrary addresses, and each dial costs a socket
/// here and a packet there.
pub(super) const MAX_DIALS: usize = 64;

const MIN_DELAY: Duration = Duration::from_millis(100);
const MAX_DELAY: Duration = Duration::from_secs(5);
/// Head start of QUIC over TCP, and its value where QUIC failed the last time.
const QUIC_HEAD_START: Duration = Duration::from_millis(700);
const SHORT_HEAD_START: Duration = Duration::from_millis(50);
/// First delay before a peer connected over TCP is dialed over QUIC again.
const QUIC_RETRY_DELAY: Duration = Duration::from_secs(10);
/// Maximum of that delay, and the delay for this node's own address and for unproven ones.
const LONG_DELAY: Duration = Duration::from_secs(300);
/// Consecutive failures after which an address known by multicast only gets the long delay: any host of the network
/// can announce any address.
const MAX_MDNS_FAILURES: u32 = 10;
/// Consecutive failures after which an unreachable address is logged, and the maximum number of logged reasons.
const FAILURES_BEFORE_REPORT: u32 = 3;
const MAX_REASONS: usize = 4;

/// A delay, stored with its start so that it also ends when the clock is set back.
#[derive(Clone, Copy, Debug, Default)]
struct Backoff {
    from: Timestamp,
    span: Duration,
}

impl Backoff {
    fn is_over(self, now: Timestamp) -> bool {
        now < self.from || now.since(self.from) >= self.span
    }
}

/// Result of earlier dials of an address.
#[derive(Clone, Debug, Default)]
struct AddressState {
    failures: u32,
    backoff: Backoff,
    is_dialing: bool,
    /// QUIC attempts to a peer connected over TCP. They are counted apart, because they may fail forever and must not
    /// delay dials.
    quic_failures: u32,
    quic_backoff: Backoff,
    is_trying_quic: bool,
    /// The node that answered last, and when. It may advertise a different address.
    answer: Option<(Timestamp, NodeId)>,
    /// Whether the last connection used TCP.
    needs_tcp: bool,
    /// Reason of the last failure, and the reasons logged since the last answer.
    reason: Option<String>,
    reported: BTreeSet<String>,
}

/// State of all dialed addresses.
#[derive(Debug)]
pub(super) struct DialSchedule {
    seed: u64,
    addresses: BTreeMap<SocketAddr, AddressState>,
}

impl DialSchedule {
    /// `seed` differs between nodes, and so do their delays.
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, addresses: BTreeMap::new() }
    }

    /// Marks an address as being dialed if a dial is due. Returns whether it is.
    pub(super) fn start_dial(&mut self, address: SocketAddr, now: Timestamp) -> bool {
        let state = self.addresses.entry(address).or_default();
        if state.is_dialing || !state.backoff.is_over(now) {
            return false;
        }
        state.is_dialing = true;
        true
    }

    /// Starts due dials, at most `permits`: addresses known by multicast only come last, then the longest waiting
    /// comes first.
    pub(super) fn start_dials(
        &mut self,
        targets: impl IntoIterator<Item = (SocketAddr, bool)>,
        permits: usize,
        now: Timestamp,
    ) -> Vec<SocketAddr> {
        let mut order: Vec<_> = targets
            .into_iter()
            .map(|(address, is_announced)| {
                let last = self.addresses.get(&address).map(|state| state.backoff.from);
                (is_announced, last, address)
            })
            .collect();
        order.sort_unstable();
        let due =
            order.into_iter().map(|(_, _, address)| address).filter(|address| self.start_dial(*address, now));
        due.take(permits).collect()
    }

    /// Marks an address that is connected over TCP since `since` as being dialed over QUIC if that is due. Returns
    /// whether it is.
    pub(super) fn start_quic_retry(&mut self, address: SocketAddr, since: Timestamp, now: Timestamp) -> bool {
        let state = self.addresses.entry(address).or_default();
        let is_settled = Backoff { from: since, span: QUIC_RETRY_DELAY }.is_over(now);
        if state.is_trying_quic || !is_settled || !state.quic_backoff.is_over(now) {
            return false;
        }
        state.is_trying_quic = true;
        true
    }

    /// Records which node answered at an address; `is_itself` if that is this node.
    pub(super) fn record_answer(
        &mut self,
        address: SocketAddr,
        name: NodeId,
        now: Timestamp,
        is_itself: bool,
    ) {
        // The minimum delay applies if the connection breaks immediately.
        let span = if is_itself { LONG_DELAY } else { MIN_DELAY };
        let state = self.addresses.entry(address).or_default();
        (state.failures, state.is_dialing) = (0, false);
        state.backoff = Backoff { from: now, span };
        state.answer = Some((now, name));
        (state.reason, state.reported) = (None, BTreeSet::new());
    }

    /// Records the transport of a connection. After TCP the next dial has a short head start for QUIC.
    pub(super) fn record_transport(&mut self, address: SocketAddr, transport: Transport) {
        let state = self.addresses.entry(address).or_default();
        state.needs_tcp = transport == Transport::Tcp;
        if transport == Transport::Quic {
            (state.quic_failures, state.quic_backoff) = (0, Backoff::default());
            state.is_trying_quic = false;
        }
    }

    pub(super) fn head_start(&self, address: SocketAddr) -> Duration {
        let needs_tcp = self.addresses.get(&address).is_some_and(|state| state.needs_tcp);
        if needs_tcp { SHORT_HEAD_START } else { QUIC_HEAD_START }
    }

    /// Records a failed dial; `is_announced` if the address is known by multicast only.
    pub(super) fn record_failure(&mut self, address: SocketAddr, now: Timestamp, is_announced: bool) {
        let seed = self.seed;
        let state = self.addresses.entry(address).or_default();
        state.failures = state.failures.saturating_add(1);
        let is_unproven = is_announced && state.failures >= MAX_MDNS_FAILURES;
        let longest = if is_unproven { LONG_DELAY } else { doubled(MIN_DELAY, state.failures, MAX_DELAY) };
        let span = jittered(longest, seed, state.failures, address);
        (state.backoff, state.is_dialing) = (Backoff { from: now, span }, false);
    }

    /// Records the reason of a failed dial. Returns whether to log it: once per reason, if failures repeat.
    pub(super) fn record_reason(&mut self, address: SocketAddr, reason: &str) -> bool {
        let Some(state) = self.addresses.get_mut(&address) else { return false };
        state.reason = Some(reason.to_owned());
        let is_reported = state.failures >= FAILURES_BEFORE_REPORT && state.reported.len() < MAX_REASONS;
        is_reported && state.reported.insert(reason.to_owned())
    }

    /// The reason of the last failure, unless the address has answered since.
    pub(super) fn failure(&self, address: SocketAddr) -> Option<&str> {
        self.addresses.get(&address)?.reason.as_deref()
    }

    /// Records a failed QUIC attempt to a peer connected over TCP; the next one follows after a longer delay.
    pub(super) fn record_quic_failure(&mut self, address: SocketAddr, now: Timestamp) {
        let seed = self.seed;
        let state = self.addresses.entry(address).or_default();
        state.quic_failures = state.quic_failures.saturating_add(1);
        let longest = doubled(QUIC_RETRY_DELAY, state.quic_failures, LONG_DELAY);
        let span = jittered(longest, seed, state.quic_failures, address);
        (state.quic_backoff, state.is_trying_quic) = (Backoff { from: now, span }, false);
    }

    /// The node that answered last, if no dial has failed since.
    pub(super) fn expected_peer(&self, address: SocketAddr) -> Option<NodeId> {
        let state = self.addresses.get(&address).filter(|state| state.failures == 0)?;
        state.answer.as_ref().map(|(_, name)| name.clone())
    }

    /// The node that answered last, and when.
    pub(super) fn last_answer(&self, address: SocketAddr) -> Option<(Timestamp, NodeId)> {
        self.addresses.get(&address)?.answer.clone()
    }

    /// Removes addresses that no source names any more.
    pub(super) fn retain(&mut self, is_named: impl Fn(&SocketAddr) -> bool) {
        self.addresses.retain(|address, state| state.is_dialing || state.is_trying_quic || is_named(address));
    }
}

/// A delay that doubles with each failure.
fn doubled(first: Duration, failures: u32, longest: Duration) -> Duration {
    first.saturating_mul(1 << failures.min(12)).min(longest)
}

/// Between half of a delay and all of it, by node.
fn jittered(longest: Duration, seed: u64, failures: u32, address: SocketAddr) -> Duration {
    let mut hasher = SipHasher13::new_with_keys(seed, u64::from(failures));
    hasher.write(address.to_string().as_bytes());
    let share = u32::try_from(hasher.finish() % 512).unwrap_or(0) + 512;
    longest * share / 1_024
}

#[cfg(test)]
mod tests;
