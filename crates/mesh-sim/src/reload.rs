//! Limits that differ between nodes for a while, since nodes reload one after the other: once or twice,
//! windows and buckets, with requests at all nodes or at all but the owner, over good and bad networks. The
//! question is whether a window admitted more than the larger of its limits, and whether one did more than
//! the new limit once all nodes had it.

use super::network::Network;
use super::world::World;
use hivemind_core::store::Key;
use hivemind_core::{Limit, Period, Rate};
use hivemind_mesh::testing::Random;
use hivemind_mesh::{MeshOptions, OnUnreachable};

const SECOND: u64 = 1_000_000;
/// After the last reload some frames are still under way that were sent before it; and a window may have been
/// opened so long before it began.
const SETTLED: u64 = 1_500_000;

/// Who is asked for decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    All,
    /// An owner that gets no request of its own hears of its limit from others alone.
    AllButOwner,
    /// Most requests come to one node.
    OneMostly(usize),
}

/// A run in which nodes reload.
///
/// ```
/// use hivemind_core::{Limit, Period};
/// use hivemind_mesh_sim::Reload;
///
/// let run = Reload::of(1);
/// assert!((2..=3).contains(&run.limits.len())); // One after the other, at other times on each node.
/// let [from, to] = [5, 20].map(|requests| Limit::fixed_window(requests, Period::SECOND));
/// assert_eq!(Reload::from_to(1, 3, from, to).limits, [from, to]);
/// ```
#[derive(Clone, Debug)]
pub struct Reload {
    seed: u64,
    nodes: usize,
    /// The limits, one after the other: two or three.
    pub limits: Vec<Limit>,
    asked: Asked,
    bad_network: bool,
    /// When each node begins to go by the second limit, and by the third.
    times: Vec<Vec<u64>>,
    /// When some nodes do not hear the others.
    cut: Option<(usize, u64, u64)>,
    random: Random,
}

/// What came of it.
///
/// ```
/// use hivemind_core::{Limit, Period};
/// use hivemind_mesh_sim::Reload;
///
/// let [from, to] = [5, 20].map(|requests| Limit::fixed_window(requests, Period::SECOND));
/// let reloaded = Reload::from_to(1, 3, from, to).play();
/// assert_eq!(reloaded.over_larger, 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reloaded {
    /// The most that a window, or a span of a bucket, admitted beyond the larger of the limits.
    pub over_larger: u64,
    /// The most that one did beyond the last limit, once all nodes had it.
    pub over_new: u64,
    /// What was admitted once all had it, and what might have been.
    pub admitted: u64,
    /// See there.
    pub possible: u64,
}

fn chosen<T: Copy>(random: &mut Random, list: &[T], otherwise: T) -> T {
    let place = usize::try_from(random.below(list.len() as u64)).unwrap_or(0);
    list.get(place).copied().unwrap_or(otherwise)
}

/// Two or three limits of one counter: around the number from which on so many nodes split a window, where shares
/// are rounded, and far from each other.
fn drawn_limits(random: &mut Random, nodes: usize) -> Vec<Limit> {
    let split = u32::try_from(10 * nodes).unwrap_or(u32::MAX);
    let edge = [split - 1, split, split + 1];
    let amounts = [split - 1, split, split + 1, 2 * split, 2 * split - 1, 4 * split, 5, 20];
    let count = if random.chance(300) { 3 } else { 2 };
    let period = Period::SECOND.times(chosen(random, &[1, 1, 1, 3], 1)).unwrap_or(Period::SECOND);
    let kind = random.below(5);
    let mut limits: Vec<Limit> = Vec::new();
    // Half of them on the two sides of that number, where what is held by one limit is not lent by the other.
    let near = random.chance(500);
    while limits.len() < count {
        let amount = if near { chosen(random, &edge, 20) } else { chosen(random, &amounts, 20) };
        let limit = match kind {
            0..2 => Limit::fixed_window(amount, period),
            2 => Limit::sliding_window(amount, period),
            _ => {
                let rate = Rate::per_second(chosen(random, &[20, 50, 200], 50));
                let bucket = rate.and_then(|rate| Limit::token_bucket(rate, amount));
                bucket.unwrap_or(Limit::fixed_window(amount, period))
            }
        };
        if limits.last() != Some(&limit) {
            limits.push(limit);
        }
    }
    limits
}

impl Reload {
    /// The run of this seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x5e1d);
        let nodes = chosen(&mut random, &[3, 4, 5, 5, 7], 3);
        let limits = drawn_limits(&mut random, nodes);
        Self::between(seed, nodes, limits, random)
    }

    /// A run from one limit to another.
    #[must_use]
    pub fn from_to(seed: u64, nodes: usize, from: Limit, to: Limit) -> Self {
        Self::between(seed, nodes, vec![from, to], Random::new(seed))
    }

    fn between(seed: u64, nodes: usize, limits: Vec<Limit>, mut random: Random) -> Self {
        let asked = match random.below(3) {
            0 => Asked::All,
            1 => Asked::AllButOwner,
            _ => Asked::OneMostly(usize::try_from(random.below(nodes as u64)).unwrap_or(0)),
        };
        let mut from = SECOND;
        let mut times = Vec::new();
        for _ in 1..limits.len() {
            // Half of them just before and after a window's edge, which is where shares are dealt out.
            let first = if random.chance(500) {
                from + SECOND - 150_000 + random.below(200_000)
            } else {
                from + random.below(SECOND)
            };
            let gap = chosen(&mut random, &[0, 30_000, 300_000, SECOND], 0);
            let mut each: Vec<u64> =
                (0..nodes as u64).map(|node| first + node * random.below(gap + 1)).collect();
            let by = usize::try_from(random.below(nodes as u64)).unwrap_or(0);
            each.rotate_left(by);
            from = each.iter().copied().max().unwrap_or(from);
            times.push(each);
        }
        let begins = SECOND + random.below(from);
        let cut = random.chance(150).then(|| {
            (usize::try_from(1 + random.below(nodes as u64 - 1)).unwrap_or(1), begins, begins + 2 * SECOND)
        });
        let bad_network = random.chance(500);
        Self { seed, nodes, limits, asked, bad_network, times, cut, random }
    }

    /// From when on all nodes have the last limit, and know it of each other.
    fn agreed(&self) -> u64 {
        let last = self.times.iter().flatten().copied().max().unwrap_or(0);
        self.cut.map_or(last, |(_, _, heals)| last.max(heals))
    }

    fn period_us(&self) -> u64 {
        let period = self.limits.first().map(|limit| limit.period().length().as_micros());
        period.and_then(|period| u64::try_from(period).ok()).unwrap_or(SECOND)
    }

    /// Plays it.
    #[must_use]
    pub fn play(&self) -> Reloaded {
        let mut random = self.random.clone();
        let mut options = MeshOptions { on_unreachable: OnUnreachable::Refuse, ..MeshOptions::default() };
        options.council.found_after = None;
        let network = if self.bad_network { Network::bad() } else { Network::default() };
        let mut world = World::new(self.seed, network, options, 5_000);
        world.start_together(self.nodes);
        let key = Key::from_bits(random.draw(), random.draw());
        let Some(first) = self.limits.first() else { return self.judge(&world, 0) };
        let counter = world.add_limit(key, *first);
        let owner = (0..self.nodes).find(|index| {
            let node = world.node(*index);
            node.is_some_and(|node| node.view().and_then(|view| view.owner(key)) == Some(node.member()))
        });
        let fastest = self.limits.iter().map(|limit| u64::from(limit.requests())).max().unwrap_or(1);
        // Twice to three times what the largest of them admits.
        let pause = self.period_us() / fastest.max(1);
        let end = self.agreed() + SETTLED + 4 * self.period_us();
        while world.elapsed_us() < end {
            self.reload_those_whose_time_it_is(&mut world, counter);
            world.network.cut = self
                .cut
                .filter(|(_, begins, heals)| (*begins..*heals).contains(&world.elapsed_us()))
                .map(|(cut, ..)| cut);
            let any = usize::try_from(random.below(self.nodes as u64)).unwrap_or(0);
            let node = match self.asked {
                Asked::AllButOwner if Some(any) == owner => (any + 1) % self.nodes,
                Asked::OneMostly(one) if random.chance(800) => one,
                _ => any,
            };
            world.hit(node, counter, 1);
            world.run_until(world.elapsed_us() + 1 + random.below(pause));
        }
        self.judge(&world, counter)
    }

    fn reload_those_whose_time_it_is(&self, world: &mut World, counter: usize) {
        for (limit, times) in self.limits.iter().skip(1).zip(&self.times) {
            for (node, time) in times.iter().enumerate() {
                if world.elapsed_us() >= *time {
                    world.reload_once(node, counter, *limit);
                }
            }
        }
    }

    fn judge(&self, world: &World, counter: usize) -> Reloaded {
        let nothing = Reloaded { over_larger: 0, over_new: 0, admitted: 0, possible: 0 };
        let (Some(tally), Some(last)) = (world.tally(counter), self.limits.last()) else { return nothing };
        let since = world.started_us() + self.agreed() + SETTLED;
        if matches!(last, Limit::TokenBucket(_)) {
            let most = |of: fn(&Limit) -> u32| self.limits.iter().map(of).max().unwrap_or(1);
            let rate = Rate::per_second(most(Limit::requests));
            let larger = rate.and_then(|rate| Limit::token_bucket(rate, most(Limit::burst))).unwrap_or(*last);
            let over_larger = tally.most_over_in_a_span(&larger, 0);
            let over_new = tally.most_over_in_a_span(last, since * 1_000);
            let admitted = tally.admitted_since(since * 1_000);
            let possible = u64::from(last.requests()) * 4;
            return Reloaded { over_larger, over_new, admitted, possible };
        }
        let larger = u64::from(self.limits.iter().map(Limit::requests).max().unwrap_or(0));
        let new = u64::from(last.requests());
        let from = since.div_ceil(self.period_us());
        let over = |from: u64, limit: u64| {
            let each = tally.windows().range(from..).map(|(_, (_, admitted))| admitted.saturating_sub(limit));
            each.max().unwrap_or(0)
        };
        let admitted = tally.windows().range(from..from + 3).map(|(_, (_, admitted))| admitted).sum();
        Reloaded { over_larger: over(0, larger), over_new: over(from, new), admitted, possible: 3 * new }
    }
}
