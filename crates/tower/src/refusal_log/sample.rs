//! How often each client's refusals are told: its first lines of a window, and then how
//! many were left out. A flood must not fill a disk, and fail2ban needs no more lines
//! than its `maxretry`.
//!
//! Invariant: a line is left out only if this client had [`LogSampling`]'s number of
//! lines within the window before it; so whoever bans by that number within that time,
//! and for as long at least, bans the same clients at the same moment. The one exception is
//! the bound on lines per second, of all clients together; a line that it left out is none
//! of its client's, who has it at the next refusal that finds room. The table is of a fixed
//! size, and made at the first refusal. Where it overflows, the client with the fewest
//! refusals is forgotten: that costs lines, never a ban, and the loudest stay known.

use super::Key;
use super::log_sampling::LogSampling;
use super::per_second::PerSecond;
use hivemind_core::{ClientIp, Timestamp};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

const SETS: usize = 1_024;
const WAYS: usize = 8;
/// How many sets a written line looks at for windows that are over,
const SWEPT_SETS: usize = 64;
/// and how long until the next one does.
const BETWEEN_SWEEPS: Duration = Duration::from_secs(1);
/// How many clients it tells of at most, so that one request does not pay for all.
const MOST_TOLD: usize = 8;

/// Whose lines were not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Whose {
    /// Those of one window of one client.
    Client(Key),
    /// Those of one second of all clients, over the bound.
    All,
}

/// Lines that were not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LeftOut {
    pub(super) whose: Whose,
    pub(super) lines: u64,
    pub(super) since: Timestamp,
}

/// What to do about one refusal.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sampled {
    pub(super) is_written: bool,
    /// Of windows that are over, to be told now.
    pub(super) left_out: Vec<LeftOut>,
}

#[derive(Clone, Copy)]
struct Seen {
    client: Key,
    since: Timestamp,
    refusals: u64,
}

type Set = [Option<Seen>; WAYS];

pub(super) struct Samples {
    sampling: LogSampling,
    // Keyed by chance, so that nobody can aim at another client's set.
    hasher: RandomState,
    sets: OnceLock<Box<[Mutex<Set>]>>,
    per_second: PerSecond,
    next_swept: AtomicUsize,
    sweeps_again_at: AtomicU64,
}

impl Samples {
    pub(super) fn new(sampling: LogSampling) -> Self {
        Self {
            sampling,
            hasher: RandomState::new(),
            sets: OnceLock::new(),
            per_second: PerSecond::new(sampling.per_second),
            next_swept: AtomicUsize::new(0),
            sweeps_again_at: AtomicU64::new(0),
        }
    }

    fn sets(&self) -> &[Mutex<Set>] {
        self.sets.get_or_init(|| (0..SETS).map(|_| Mutex::new([None; WAYS])).collect())
    }

    /// Counts a refusal.
    pub(super) fn count(&self, client: Key, now: Timestamp) -> Sampled {
        let mut left_out = Vec::new();
        let is_written = self.count_one(client, now, &mut left_out);
        if is_written && self.is_sweep_due(now) {
            self.sweep(now, &mut left_out);
        }
        Sampled { is_written, left_out }
    }

    /// Everything that was left out and not told yet, for a log that ends.
    pub(super) fn finish(&self) -> Vec<LeftOut> {
        let sets = self.sets.get().into_iter().flatten();
        let taken = sets.flat_map(|set| std::mem::replace(&mut *lock_of(set), [None; WAYS]));
        let of_clients = taken.flatten().filter_map(|seen| self.left_out(seen));
        let since = self.per_second.since();
        let of_all = self.per_second.finish().map(|lines| LeftOut { whose: Whose::All, lines, since });
        of_clients.chain(of_all).collect()
    }

    fn count_one(&self, client: Key, now: Timestamp, left_out: &mut Vec<LeftOut>) -> bool {
        let first = u64::from(self.sampling.first.get());
        let Some(mut set) = self.set(self.hasher.hash_one(bits(client))) else { return true };
        if let Some(seen) = set.iter_mut().flatten().find(|seen| seen.client == client) {
            let is_over = self.sampling.is_over(seen.since, now);
            if !is_over && seen.refusals >= first {
                seen.refusals = seen.refusals.saturating_add(1);
                return false;
            }
            if !self.has_room(now, left_out) {
                return false;
            }
            if is_over {
                left_out.extend(self.left_out(*seen));
                *seen = Seen { client, since: now, refusals: 0 };
            }
            seen.refusals = seen.refusals.saturating_add(1);
            return true;
        }
        if !self.has_room(now, left_out) {
            return false;
        }
        let quietest = set.iter_mut().min_by_key(|way| match way {
            None => 0,
            Some(seen) if self.sampling.is_over(seen.since, now) => 0,
            Some(seen) => seen.refusals,
        });
        if let Some(way) = quietest {
            let forgotten = way.replace(Seen { client, since: now, refusals: 1 });
            left_out.extend(forgotten.and_then(|seen| self.left_out(seen)));
        }
        true
    }

    fn has_room(&self, now: Timestamp, left_out: &mut Vec<LeftOut>) -> bool {
        let room = self.per_second.take(now);
        let told = room.left_out.map(|(lines, since)| LeftOut { whose: Whose::All, lines, since });
        left_out.extend(told);
        room.is_there
    }

    /// Whether it is time to look at other clients; of all that see it, one is told so.
    fn is_sweep_due(&self, now: Timestamp) -> bool {
        let (due, order) = (self.sweeps_again_at.load(Ordering::Relaxed), Ordering::Relaxed);
        let next = now.saturating_add(BETWEEN_SWEEPS).as_nanos();
        // A clock that was set back does not end it.
        let is_due = now.as_nanos() >= due || next < due;
        is_due && self.sweeps_again_at.compare_exchange(due, next, order, order).is_ok()
    }

    /// Looks for windows that are over and of which something is to be told: a client
    /// that never comes back would else keep its number to itself.
    fn sweep(&self, now: Timestamp, left_out: &mut Vec<LeftOut>) {
        let from = self.next_swept.fetch_add(SWEPT_SETS, Ordering::Relaxed);
        for index in from..from.wrapping_add(SWEPT_SETS) {
            let Some(mut set) = self.sets().get(index % SETS).map(lock_of) else { continue };
            for way in set.iter_mut() {
                if left_out.len() >= MOST_TOLD {
                    return;
                }
                if let Some(seen) = way.take_if(|seen| self.sampling.is_over(seen.since, now)) {
                    left_out.extend(self.left_out(seen));
                }
            }
        }
    }

    fn left_out(&self, seen: Seen) -> Option<LeftOut> {
        let lines = seen.refusals.saturating_sub(self.sampling.first.get().into());
        (lines > 0).then_some(LeftOut { whose: Whose::Client(seen.client), lines, since: seen.since })
    }

    fn set(&self, hash: u64) -> Option<MutexGuard<'_, Set>> {
        let index = usize::try_from(hash % SETS as u64).ok()?;
        self.sets().get(index).map(lock_of)
    }
}

/// What a client's set is chosen by, in one word: its parts one by one would cost the hasher four times as much.
/// Clients of one address and different prefixes share a set, and nothing else.
fn bits(client: Key) -> u128 {
    match client.map(ClientIp::address) {
        None => 0,
        Some(IpAddr::V4(address)) => u128::from(address.to_bits()),
        Some(IpAddr::V6(address)) => address.to_bits(),
    }
}

fn lock_of(set: &Mutex<Set>) -> MutexGuard<'_, Set> {
    // Nothing that holds it can panic half-way.
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
        let samples = Samples::new(SAMPLING);
        for (second, is_written, lines) in [
            (100, true, 0),
            (100, true, 0),
            (130, true, 0),
            (130, false, 0),
            (159, false, 0),
            (160, true, 2), // A window is as long as `findtime`, from its first line.
            (161, true, 0),
            (120, true, 0), // A clock that steps back within a window begins none,
            (120, false, 0),
            (219, false, 0), // and ends none.
            (40, true, 2),   // One that was set back does.
        ] {
            let counted = samples.count(client(1), at(second));
            let told: u64 = counted.left_out.iter().map(|left_out| left_out.lines).sum();
            assert_eq!((counted.is_written, told), (is_written, lines), "at {second} s");
        }
    }

    #[test]
    fn clients_are_sampled_by_address_and_unknown_ones_as_one() {
        let samples = Samples::new(SAMPLING);
        for who in [client(1), client(2), None] {
            let written: Vec<_> = (0..5).map(|_| samples.count(who, at(1)).is_written).collect();
            assert_eq!(written, [true, true, true, false, false]);
        }
        let mut finished: Vec<_> = samples.finish().iter().map(|left_out| left_out.whose).collect();
        finished.sort_unstable();
        assert_eq!(finished, [None, client(1), client(2)].map(Whose::Client));
        assert_eq!(samples.finish(), []);
    }

    /// Fails without the sweep.
    #[test]
    fn left_out_lines_of_absent_client_are_reported() {
        let samples = Samples::new(SAMPLING);
        for _ in 0..10 {
            samples.count(client(1), at(0));
        }
        let lines = (SETS / SWEPT_SETS).try_into().unwrap();
        let others =
            (0..lines).flat_map(|other| samples.count(client(other + 2), at(60 + u64::from(other))).left_out);
        let whose = Whose::Client(client(1));
        assert_eq!(others.collect::<Vec<_>>(), [LeftOut { whose, lines: 7, since: at(0) }]);
    }

    /// Fails with a sweep at each line that is written.
    #[test]
    fn sampler_sweeps_once_per_second() {
        let samples = Samples::new(SAMPLING.most_per_second(NonZeroU32::MAX));
        for loud in 0..4_000 {
            for _ in 0..4 {
                samples.count(client(loud), at(0));
            }
        }
        let told = |other, second| samples.count(client(other), at(second)).left_out.len();
        assert!(told(9_001, 60) >= MOST_TOLD);
        assert!(
            (9_002..9_100).all(|other| told(other, 60) <= 1),
            "its own set's, that it takes the place of"
        );
        assert!(told(9_101, 61) >= MOST_TOLD);
    }

    /// Fails with each of them counted among its client's first.
    #[test]
    fn distributed_flood_is_bounded_and_late_clients_get_lines() {
        let samples = Samples::new(SAMPLING.most_per_second(NonZeroU32::new(10).unwrap()));
        let written = |second| {
            let counted = (1..101).map(|who| samples.count(client(who), at(second)));
            counted.filter(|counted| counted.is_written).count()
        };
        assert_eq!([written(1), written(1), written(1)], [10, 0, 0]);
        let first = samples.count(client(100), at(2));
        assert!(first.is_written, "its first, whatever came before");
        assert_eq!(first.left_out, [LeftOut { whose: Whose::All, lines: 290, since: at(1) }]);
        assert_eq!(written(2), 9);
        assert_eq!(samples.finish(), [LeftOut { whose: Whose::All, lines: 91, since: at(2) }]);
    }

    #[test]
    fn sampler_without_refusals_allocates_no_table() {
        let samples = Samples::new(SAMPLING);
        assert!(samples.finish().is_empty() && samples.sets.get().is_none());
    }

    /// Fails with the loudest forgotten instead of the quietest.
    #[test]
    fn address_scan_keeps_loud_client_and_its_line_count() {
        let samples = Samples::new(SAMPLING.most_per_second(NonZeroU32::MAX));
        for _ in 0..1_000 {
            samples.count(client(1), at(0));
        }
        let scan = (2..100_000).map(|other| samples.count(client(other), at(1)));
        assert!(scan.into_iter().all(|counted| counted.is_written && counted.left_out.is_empty()));
        assert!(!samples.count(client(1), at(1)).is_written);
        assert_eq!(samples.finish(), [LeftOut { whose: Whose::Client(client(1)), lines: 998, since: at(0) }]);
    }

    proptest! {
        /// fail2ban's own rule, applied to all refusals and to the lines that are left:
        /// as many as `maxretry` within `findtime` ban, for as long again.
        /// Fails with one line fewer written, and with a window that is longer
        /// than `findtime`.
        #[test]
        fn sampled_lines_ban_at_the_same_time_as_all_refusals(
            gaps in prop::collection::vec((prop_oneof![4 => Just(0), 3 => 1..25_u64, 1 => 55..65_u64], 0..3_u32), 1..80),
        ) {
            let samples = Samples::new(SAMPLING);
            let mut tallies: HashMap<u32, [Tally; 2]> = HashMap::new();
            let (mut now, mut refused, mut told) = (1_000, 0, 0);
            for (gap, who) in &gaps {
                now += gap;
                let [by_refusals, by_lines] = tallies.entry(*who).or_default();
                if by_refusals.banned_until > now {
                    continue;
                }
                let counted = samples.count(client(*who), at(now));
                refused += 1;
                told += u64::from(counted.is_written);
                told += counted.left_out.iter().map(|left_out| left_out.lines).sum::<u64>();
                let bans = by_refusals.count(now);
                prop_assert_eq!(counted.is_written && by_lines.count(now), bans, "at {}", now);
            }
            told += samples.finish().iter().map(|left_out| left_out.lines).sum::<u64>();
            prop_assert_eq!(told, refused);
        }
    }

    #[derive(Default)]
    struct Tally {
        times: Vec<u64>,
        banned_until: u64,
    }

    impl Tally {
        fn count(&mut self, now: u64) -> bool {
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
