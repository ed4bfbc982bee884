//! Reload scenario: nodes reload at different times, so limits differ for a while. Once or twice, windows and buckets, with
//! requests at all nodes or at all except the owner, over good and faulty networks. The checks are whether a window admitted
//! more than the largest of its limits, and more than the new limit after all nodes activated it.

use super::network::Network;
use super::world::World;
use hivemind_core::store::Key;
use hivemind_core::{Limit, Period, Rate};
use hivemind_mesh::testing::Random;
use hivemind_mesh::{MeshOptions, OnUnreachable};

const SECOND: u64 = 1_000_000;
/// Time after the last reload until frames sent before it have arrived and windows opened before it have started.
const SETTLED: u64 = 1_500_000;

/// Nodes that receive requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestTarget {
    All,
    /// An owner without requests learns its limit from other nodes.
    AllExceptOwner,
    /// Most requests go to one node.
    MostlyOne(usize),
}

/// A scenario in which nodes reload.
///
/// ```
/// use hivemind_core::{Limit, Period};
/// use hivemind_mesh_sim::ReloadScenario;
///
/// let run = ReloadScenario::of(1);
/// assert!((2..=3).contains(&run.limits.len())); // Each node reloads at a different time.
/// let [from, to] = [5, 20].map(|requests| Limit::fixed_window(requests, Period::SECOND));
/// assert_eq!(ReloadScenario::from_to(1, 3, from, to).limits, [from, to]);
/// ```
#[derive(Clone, Debug)]
pub struct ReloadScenario {
    seed: u64,
    nodes: usize,
    /// Two or three successive limits.
    pub limits: Vec<Limit>,
    target: RequestTarget,
    bad_network: bool,
    /// When each node activates the second limit, and the third.
    times: Vec<Vec<u64>>,
    /// A partition: the first node of the upper side, start and end.
    cut: Option<(usize, u64, u64)>,
    random: Random,
}

/// Result of a reload scenario.
///
/// ```
/// use hivemind_core::{Limit, Period};
/// use hivemind_mesh_sim::ReloadScenario;
///
/// let [from, to] = [5, 20].map(|requests| Limit::fixed_window(requests, Period::SECOND));
/// let result = ReloadScenario::from_to(1, 3, from, to).play();
/// assert_eq!(result.over_larger, 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReloadResult {
    /// Maximum excess of a window, or of a span of a bucket, over the largest of the limits.
    pub over_larger: u64,
    /// Maximum excess over the last limit, after all nodes activated it.
    pub over_new: u64,
    /// Admissions after all nodes activated the last limit.
    pub admitted: u64,
    /// Admissible requests in that time.
    pub possible: u64,
}

fn choose<T: Copy>(random: &mut Random, list: &[T], otherwise: T) -> T {
    let place = usize::try_from(random.below(list.len() as u64)).unwrap_or(0);
    list.get(place).copied().unwrap_or(otherwise)
}

/// Two or three limits of one counter: near the amount from which this many nodes split a window, where shares are
/// rounded, and far from it.
fn draw_limits(random: &mut Random, nodes: usize) -> Vec<Limit> {
    let split = u32::try_from(10 * nodes).unwrap_or(u32::MAX);
    let edge = [split - 1, split, split + 1];
    let amounts = [split - 1, split, split + 1, 2 * split, 2 * split - 1, 4 * split, 5, 20];
    let count = if random.chance(300) { 3 } else { 2 };
    let period = Period::SECOND.times(choose(random, &[1, 1, 1, 3], 1)).unwrap_or(Period::SECOND);
    let kind = random.below(5);
    let mut limits: Vec<Limit> = Vec::new();
    // Half of them on both sides of that amount, where one limit is split and the other is not.
    let near = random.chance(500);
    while limits.len() < count {
        let amount = if near { choose(random, &edge, 20) } else { choose(random, &amounts, 20) };
        let limit = match kind {
            0..2 => Limit::fixed_window(amount, period),
            2 => Limit::sliding_window(amount, period),
            _ => {
                let rate = Rate::per_second(choose(random, &[20, 50, 200], 50));
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

impl ReloadScenario {
    /// The scenario of this seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x5e1d);
        let nodes = choose(&mut random, &[3, 4, 5, 5, 7], 3);
        let limits = draw_limits(&mut random, nodes);
        Self::between(seed, nodes, limits, random)
    }

    /// A scenario from one limit to another.
    #[must_use]
    pub fn from_to(seed: u64, nodes: usize, from: Limit, to: Limit) -> Self {
        Self::between(seed, nodes, vec![from, to], Random::new(seed))
    }

    fn between(seed: u64, nodes: usize, limits: Vec<Limit>, mut random: Random) -> Self {
        let target = match random.below(3) {
            0 => RequestTarget::All,
            1 => RequestTarget::AllExceptOwner,
            _ => RequestTarget::MostlyOne(usize::try_from(random.below(nodes as u64)).unwrap_or(0)),
        };
        let mut from = SECOND;
        let mut times = Vec::new();
        for _ in 1..limits.len() {
            // Half of them near the end of a window, where shares are assigned.
            let first = if random.chance(500) {
                from + SECOND - 150_000 + random.below(200_000)
            } else {
                from + random.below(SECOND)
            };
            let gap = choose(&mut random, &[0, 30_000, 300_000, SECOND], 0);
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
        Self { seed, nodes, limits, target, bad_network, times, cut, random }
    }

    /// When all nodes have activated the last limit and are connected.
    fn last_reload_us(&self) -> u64 {
        let last = self.times.iter().flatten().copied().max().unwrap_or(0);
        self.cut.map_or(last, |(_, _, heals)| last.max(heals))
    }

    fn period_us(&self) -> u64 {
        let period = self.limits.first().map(|limit| limit.period().length().as_micros());
        period.and_then(|period| u64::try_from(period).ok()).unwrap_or(SECOND)
    }

    /// Runs the scenario.
    #[must_use]
    pub fn play(&self) -> ReloadResult {
        let mut random = self.random.clone();
        let mut options = MeshOptions { on_unreachable: OnUnreachable::Refuse, ..MeshOptions::default() };
        options.membership.found_after = None;
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
        // Offers two to three times the largest limit.
        let pause = self.period_us() / fastest.max(1);
        let end = self.last_reload_us() + SETTLED + 4 * self.period_us();
        while world.elapsed_us() < end {
            self.apply_due_reloads(&mut world, counter);
            world.network.cut = self
                .cut
                .filter(|(_, begins, heals)| (*begins..*heals).contains(&world.elapsed_us()))
                .map(|(cut, ..)| cut);
            let any = usize::try_from(random.below(self.nodes as u64)).unwrap_or(0);
            let node = match self.target {
                RequestTarget::AllExceptOwner if Some(any) == owner => (any + 1) % self.nodes,
                RequestTarget::MostlyOne(one) if random.chance(800) => one,
                _ => any,
            };
            world.hit(node, counter, 1);
            world.run_until(world.elapsed_us() + 1 + random.below(pause));
        }
        self.judge(&world, counter)
    }

    fn apply_due_reloads(&self, world: &mut World, counter: usize) {
        for (limit, times) in self.limits.iter().skip(1).zip(&self.times) {
            for (node, time) in times.iter().enumerate() {
                if world.elapsed_us() >= *time {
                    world.reload_once(node, counter, *limit);
                }
            }
        }
    }

    fn judge(&self, world: &World, counter: usize) -> ReloadResult {
        let nothing = ReloadResult { over_larger: 0, over_new: 0, admitted: 0, possible: 0 };
        let (Some(tally), Some(last)) = (world.tally(counter), self.limits.last()) else { return nothing };
        let since = world.started_us() + self.last_reload_us() + SETTLED;
        if matches!(last, Limit::TokenBucket(_)) {
            let most = |of: fn(&Limit) -> u32| self.limits.iter().map(of).max().unwrap_or(1);
            let rate = Rate::per_second(most(Limit::requests));
            let larger = rate.and_then(|rate| Limit::token_bucket(rate, most(Limit::burst))).unwrap_or(*last);
            let over_larger = tally.max_excess_in_span(&larger, 0);
            let over_new = tally.max_excess_in_span(last, since * 1_000);
            let admitted = tally.admitted_since(since * 1_000);
            let possible = u64::from(last.requests()) * 4;
            return ReloadResult { over_larger, over_new, admitted, possible };
        }
        let larger = u64::from(self.limits.iter().map(Limit::requests).max().unwrap_or(0));
        let new = u64::from(last.requests());
        let from = since.div_ceil(self.period_us());
        let over = |from: u64, limit: u64| {
            let each = tally.windows().range(from..).map(|(_, (_, admitted))| admitted.saturating_sub(limit));
            each.max().unwrap_or(0)
        };
        let admitted = tally.windows().range(from..from + 3).map(|(_, (_, admitted))| admitted).sum();
        ReloadResult { over_larger: over(0, larger), over_new: over(from, new), admitted, possible: 3 * new }
    }
}
