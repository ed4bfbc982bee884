//! Sampling of log lines: the first lines of each client in a window, then the number of lines left out.
//!
//! A flood must not fill a disk, and fail2ban needs no more lines than its `maxretry`. Invariant: a line is left
//! out only if its client already has the configured number of lines within the window before it. So a jail with
//! this `maxretry` and `findtime` bans the same clients at the same moment as without sampling.
//!
//! There is one exception, the bound on lines per second of all clients. A line that it leaves out does not count
//! for its client, which gets one at its next refusal within the bound.
//!
//! The table has a fixed size and is allocated at the first refusal. When it overflows, the client with the fewest
//! refusals is dropped: that costs lines but never a ban, and the loudest clients stay.

use super::Key;
use super::line_rate::LineRate;
use super::log_sampling::LogSampling;
use hivemind_core::{ClientIp, Timestamp};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

const SETS: usize = 1_024;
const WAYS: usize = 8;
/// The number of sets that one sweep checks for expired windows.
const SWEPT_SETS: usize = 64;
/// The interval between sweeps.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);
/// The maximum of clients that one sweep reports, which bounds the work of one request.
const MAX_REPORTED: usize = 8;

/// The origin of lines that were left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LogSubject {
    /// One window of one client.
    Client(Key),
    /// One second of all clients, over the bound.
    All,
}

/// A number of lines that were left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeftOutLines {
    pub(super) subject: LogSubject,
    pub(super) lines: u64,
    pub(super) since: Timestamp,
}

/// The result of recording one refusal.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SampleResult {
    pub(super) is_written: bool,
    /// Lines of expired windows, to be reported now.
    pub(super) left_out: Vec<LeftOutLines>,
}

#[derive(Clone, Copy)]
struct ClientSample {
    client: Key,
    since: Timestamp,
    refusals: u64,
}

type Set = [Option<ClientSample>; WAYS];

pub(super) struct LogSampler {
    sampling: LogSampling,
    // Randomly keyed, so that a client cannot target another client's set.
    hasher: RandomState,
    sets: OnceLock<Box<[Mutex<Set>]>>,
    per_second: LineRate,
    next_swept: AtomicUsize,
    next_sweep_at: AtomicU64,
}

impl LogSampler {
    pub(super) fn new(sampling: LogSampling) -> Self {
        Self {
            sampling,
            hasher: RandomState::new(),
            sets: OnceLock::new(),
            per_second: LineRate::new(sampling.per_second),
            next_swept: AtomicUsize::new(0),
            next_sweep_at: AtomicU64::new(0),
        }
    }

    fn sets(&self) -> &[Mutex<Set>] {
        self.sets.get_or_init(|| (0..SETS).map(|_| Mutex::new([None; WAYS])).collect())
    }

    /// Records a refusal and decides whether its line is written.
    pub(super) fn record(&self, client: Key, now: Timestamp) -> SampleResult {
        let mut left_out = Vec::new();
        let is_written = self.record_client(client, now, &mut left_out);
        if is_written && self.claim_sweep(now) {
            self.sweep(now, &mut left_out);
        }
        SampleResult { is_written, left_out }
    }

    /// Takes all lines that were left out and not reported yet.
    pub(super) fn drain(&self) -> Vec<LeftOutLines> {
        let sets = self.sets.get().into_iter().flatten();
        let samples = sets.flat_map(|set| std::mem::replace(&mut *lock(set), [None; WAYS]));
        let of_clients = samples.flatten().filter_map(|sample| self.left_out(sample));
        let since = self.per_second.since();
        let of_all =
            self.per_second.drain().map(|lines| LeftOutLines { subject: LogSubject::All, lines, since });
        of_clients.chain(of_all).collect()
    }

    fn record_client(&self, client: Key, now: Timestamp, left_out: &mut Vec<LeftOutLines>) -> bool {
        let first = u64::from(self.sampling.first.get());
        let Some(mut set) = self.set(self.hasher.hash_one(bits(client))) else { return true };
        if let Some(sample) = set.iter_mut().flatten().find(|sample| sample.client == client) {
            let is_expired = self.sampling.is_expired(sample.since, now);
            if !is_expired && sample.refusals >= first {
                sample.refusals = sample.refusals.saturating_add(1);
                return false;
            }
            if !self.acquire_line(now, left_out) {
                return false;
            }
            if is_expired {
                left_out.extend(self.left_out(*sample));
                *sample = ClientSample { client, since: now, refusals: 0 };
            }
            sample.refusals = sample.refusals.saturating_add(1);
            return true;
        }
        if !self.acquire_line(now, left_out) {
            return false;
        }
        let quietest = set.iter_mut().min_by_key(|way| match way {
            None => 0,
            Some(sample) if self.sampling.is_expired(sample.since, now) => 0,
            Some(sample) => sample.refusals,
        });
        if let Some(way) = quietest {
            let dropped = way.replace(ClientSample { client, since: now, refusals: 1 });
            left_out.extend(dropped.and_then(|sample| self.left_out(sample)));
        }
        true
    }

    /// Takes a line from the rate of all clients, and adds what it reports to `left_out`.
    fn acquire_line(&self, now: Timestamp, left_out: &mut Vec<LeftOutLines>) -> bool {
        let permit = self.per_second.acquire(now);
        left_out.extend(permit.left_out.map(|(lines, since)| LeftOutLines {
            subject: LogSubject::All,
            lines,
            since,
        }));
        permit.is_granted
    }

    /// Claims the sweep if it is due. Only one of several threads succeeds.
    fn claim_sweep(&self, now: Timestamp) -> bool {
        let (due, ordering) = (self.next_sweep_at.load(Ordering::Relaxed), Ordering::Relaxed);
        let next = now.saturating_add(SWEEP_INTERVAL).as_nanos();
        // A clock that was set back does not stop the sweeps.
        let is_due = now.as_nanos() >= due || next < due;
        is_due && self.next_sweep_at.compare_exchange(due, next, ordering, ordering).is_ok()
    }

    /// Reports expired windows. Otherwise the left-out lines of a client that never returns would not be reported.
    fn sweep(&self, now: Timestamp, left_out: &mut Vec<LeftOutLines>) {
        let from = self.next_swept.fetch_add(SWEPT_SETS, Ordering::Relaxed);
        for index in from..from.wrapping_add(SWEPT_SETS) {
            let Some(mut set) = self.sets().get(index % SETS).map(lock) else { continue };
            for way in set.iter_mut() {
                if left_out.len() >= MAX_REPORTED {
                    return;
                }
                if let Some(sample) = way.take_if(|sample| self.sampling.is_expired(sample.since, now)) {
                    left_out.extend(self.left_out(sample));
                }
            }
        }
    }

    fn left_out(&self, sample: ClientSample) -> Option<LeftOutLines> {
        let lines = sample.refusals.saturating_sub(self.sampling.first.get().into());
        (lines > 0).then_some(LeftOutLines {
            subject: LogSubject::Client(sample.client),
            lines,
            since: sample.since,
        })
    }

    fn set(&self, hash: u64) -> Option<MutexGuard<'_, Set>> {
        let index = usize::try_from(hash % SETS as u64).ok()?;
        self.sets().get(index).map(lock)
    }
}

/// The address as one word; hashing its parts separately would take four times as long. Clients with the same
/// address and different prefixes share a set, which only fills it sooner.
fn bits(client: Key) -> u128 {
    match client.map(ClientIp::address) {
        None => 0,
        Some(IpAddr::V4(address)) => u128::from(address.to_bits()),
        Some(IpAddr::V6(address)) => address.to_bits(),
    }
}

fn lock(set: &Mutex<Set>) -> MutexGuard<'_, Set> {
    // No code that holds the lock can panic with a partial update.
    set.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;
    use std::net::Ipv4Addr;
    use std::num::NonZeroU32;

    const SAMPLING: LogSampling = LogSampling::new(NonZeroU32::new(3).unwrap(), Duration::from_secs(60));

    #[expect(clippy::unnecessary_wraps, reason = "there are keys without an address")]
    fn client(number: u32) -> Key {
        Some(Ipv4Addr::from_bits(number).into())
    }

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    #[test]
    fn first_lines_are_written_and_next_window_reports_the_rest() {
        let samples = LogSampler::new(SAMPLING);
        for (second, is_written, lines) in [
            (100, true, 0),
            (100, true, 0),
            (130, true, 0),
            (130, false, 0),
            (159, false, 0),
            (160, true, 2), // A window lasts `findtime` from its first line.
            (161, true, 0),
            (120, true, 0), // A clock that steps back within a window starts no new window,
            (120, false, 0),
            (219, false, 0), // and ends none.
            (40, true, 2),   // A clock that was set back starts one.
        ] {
            let result = samples.record(client(1), at(second));
            let left_out: u64 = result.left_out.iter().map(|left_out| left_out.lines).sum();
            assert_eq!((result.is_written, left_out), (is_written, lines), "at {second} s");
        }
    }

    #[test]
    fn clients_are_sampled_by_address_and_unknown_ones_as_one() {
        let samples = LogSampler::new(SAMPLING);
        for client in [client(1), client(2), None] {
            let written: Vec<_> = (0..5).map(|_| samples.record(client, at(1)).is_written).collect();
            assert_eq!(written, [true, true, true, false, false]);
        }
        let mut subjects: Vec<_> = samples.drain().iter().map(|left_out| left_out.subject).collect();
        subjects.sort_unstable();
        assert_eq!(subjects, [None, client(1), client(2)].map(LogSubject::Client));
        assert_eq!(samples.drain(), []);
    }

    /// Fails without the sweep.
    #[test]
    fn left_out_lines_of_absent_client_are_reported() {
        let samples = LogSampler::new(SAMPLING);
        for _ in 0..10 {
            samples.record(client(1), at(0));
        }
        let lines = (SETS / SWEPT_SETS).try_into().unwrap();
        let others = (0..lines)
            .flat_map(|other| samples.record(client(other + 2), at(60 + u64::from(other))).left_out);
        let subject = LogSubject::Client(client(1));
        assert_eq!(others.collect::<Vec<_>>(), [LeftOutLines { subject, lines: 7, since: at(0) }]);
    }

    /// Fails when each written line sweeps.
    #[test]
    fn sampler_sweeps_once_per_second() {
        let samples = LogSampler::new(SAMPLING.most_per_second(NonZeroU32::MAX));
        for loud in 0..4_000 {
            for _ in 0..4 {
                samples.record(client(loud), at(0));
            }
        }
        let reported = |other, second| samples.record(client(other), at(second)).left_out.len();
        assert!(reported(9_001, 60) >= MAX_REPORTED);
        assert!(
            (9_002..9_100).all(|other| reported(other, 60) <= 1),
            "only the client that it replaces in its set"
        );
        assert!(reported(9_101, 61) >= MAX_REPORTED);
    }

    /// Fails when left-out lines count as the first lines of their clients.
    #[test]
    fn distributed_flood_is_bounded_and_late_clients_get_lines() {
        let samples = LogSampler::new(SAMPLING.most_per_second(NonZeroU32::new(10).unwrap()));
        let written = |second| {
            let results = (1..101).map(|number| samples.record(client(number), at(second)));
            results.filter(|result| result.is_written).count()
        };
        assert_eq!([written(1), written(1), written(1)], [10, 0, 0]);
        let first = samples.record(client(100), at(2));
        assert!(first.is_written, "its first line within the bound");
        assert_eq!(first.left_out, [LeftOutLines { subject: LogSubject::All, lines: 290, since: at(1) }]);
        assert_eq!(written(2), 9);
        assert_eq!(samples.drain(), [LeftOutLines { subject: LogSubject::All, lines: 91, since: at(2) }]);
    }

    #[test]
    fn sampler_without_refusals_allocates_no_table() {
        let samples = LogSampler::new(SAMPLING);
        assert!(samples.drain().is_empty() && samples.sets.get().is_none());
    }

    /// Fails when the loudest client is dropped instead of the quietest.
    #[test]
    fn address_scan_keeps_loud_client_and_its_line_count() {
        let samples = LogSampler::new(SAMPLING.most_per_second(NonZeroU32::MAX));
        for _ in 0..1_000 {
            samples.record(client(1), at(0));
        }
        let scan = (2..100_000).map(|other| samples.record(client(other), at(1)));
        assert!(scan.into_iter().all(|result| result.is_written && result.left_out.is_empty()));
        assert!(!samples.record(client(1), at(1)).is_written);
        assert_eq!(
            samples.drain(),
            [LeftOutLines { subject: LogSubject::Client(client(1)), lines: 998, since: at(0) }]
        );
    }

    proptest! {
        /// Applies fail2ban's rule to all refusals and to the written lines: `maxretry` within `findtime` bans for
        /// at least `findtime`. Fails with one line fewer, and with a window longer than `findtime`.
        #[test]
        fn sampled_lines_ban_at_the_same_time_as_all_refusals(
            gaps in prop::collection::vec((prop_oneof![4 => Just(0), 3 => 1..25_u64, 1 => 55..65_u64], 0..3_u32), 1..80),
        ) {
            let samples = LogSampler::new(SAMPLING);
            let mut tallies: HashMap<u32, [Tally; 2]> = HashMap::new();
            let (mut now, mut refused, mut reported) = (1_000, 0, 0);
            for (gap, number) in &gaps {
                now += gap;
                let [by_refusals, by_lines] = tallies.entry(*number).or_default();
                if by_refusals.banned_until > now {
                    continue;
                }
                let result = samples.record(client(*number), at(now));
                refused += 1;
                reported += u64::from(result.is_written);
                reported += result.left_out.iter().map(|left_out| left_out.lines).sum::<u64>();
                let bans = by_refusals.record(now);
                prop_assert_eq!(result.is_written && by_lines.record(now), bans, "at {}", now);
            }
            reported += samples.drain().iter().map(|left_out| left_out.lines).sum::<u64>();
            prop_assert_eq!(reported, refused);
        }
    }

    #[derive(Default)]
    struct Tally {
        times: Vec<u64>,
        banned_until: u64,
    }

    impl Tally {
        fn record(&mut self, now: u64) -> bool {
            self.times.push(now);
            self.times.retain(|time| now - time < 60);
            let bans = self.times.len() >= 3;
            if bans {
                self.times.clear();
                self.banned_until = now + 60;
            }
            bans
        }
    }
}
