//! A run of which the seed chooses everything: how many nodes, which limit, what traffic of what
//! cost, which network, what happens to the mesh. The question is always whether more was admitted
//! than may be.

use super::network::Network;
use super::scenario::Played;
use super::traffic::{Shape, Traffic};
use super::world::World;
use hivemind_core::store::Key;
use hivemind_core::{Limit, Period, Rate, Timestamp};
use hivemind_mesh::testing::Random;
use hivemind_mesh::{MeshOptions, OnUnreachable};
use std::collections::BTreeMap;
use std::time::Duration;

const SECOND: u64 = 1_000_000;
const DAY: u64 = 86_400 * SECOND;

/// What may happen to a mesh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happening {
    Join,
    Leave,
    Crash,
    CrashForgotten,
    Restart,
    CutInHalf,
    CutOneWay,
    Heal,
    ClockSteps,
    Loss,
}

/// A run, as a seed draws it.
///
/// ```
/// use hivemind_mesh_sim::Draw;
///
/// let (draw, again) = (Draw::of(7), Draw::of(7)); // Drawn, and not played yet.
/// assert_eq!((draw.nodes, draw.limit, draw.allowed()), (again.nodes, again.limit, again.allowed()));
/// let mut coverage = std::collections::BTreeMap::new();
/// draw.count(&mut coverage); // What was drawn, to see that all of it is, sooner or later.
/// ```
#[derive(Clone, Debug)]
pub struct Draw {
    seed: u64,
    /// How many nodes there are at first.
    pub nodes: usize,
    /// The limit.
    pub limit: Limit,
    /// What to do while an owner cannot be reached.
    pub on_unreachable: OnUnreachable,
    load: f64,
    shape: Shape,
    most_cost: u64,
    bad_network: bool,
    happenings: Vec<Happening>,
    random: Random,
}

fn one_of<T: Copy>(random: &mut Random, list: &[T], otherwise: T) -> T {
    let place = usize::try_from(random.below(list.len() as u64)).unwrap_or(0);
    list.get(place).copied().unwrap_or(otherwise)
}

fn drawn_limit(random: &mut Random) -> Limit {
    let amount = one_of(random, &[1, 5, 20, 101, 400, 3_000], 5);
    let millis = one_of(random, &[300, 1_000, 1_000, 7_000, 60_000, 3_600_000, 86_400_000], 1_000);
    let period = Period::new(Duration::from_millis(millis)).unwrap_or(Period::SECOND);
    let bucket = || {
        let rate = Rate::per_second(amount.clamp(5, 400)).ok()?;
        Limit::token_bucket(rate, amount).ok()
    };
    match random.below(6) {
        0..3 => Limit::fixed_window(amount, period),
        3 => Limit::sliding_window(amount, period),
        _ => bucket().unwrap_or(Limit::fixed_window(amount, period)),
    }
}

impl Draw {
    /// The run of this seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0xd7a3);
        let nodes = match random.below(100) {
            0 => 100,
            1..4 => 30,
            _ => one_of(&mut random, &[3, 3, 4, 5, 7, 10], 3),
        };
        let limit = drawn_limit(&mut random);
        let all = {
            use Happening::{
                ClockSteps, Crash, CrashForgotten, CutInHalf, CutOneWay, Heal, Join, Leave, Loss, Restart,
            };
            [Join, Leave, Crash, CrashForgotten, Restart, CutInHalf, CutOneWay, Heal, ClockSteps, Loss]
        };
        // A share for each node that cannot reach an owner is a bound for nodes that stay who they are.
        let on_unreachable = if random.chance(200) { OnUnreachable::Share } else { OnUnreachable::Refuse };
        let is_bucket = matches!(limit, Limit::TokenBucket(_));
        let may = |happening: &Happening| match happening {
            Happening::CutInHalf | Happening::CutOneWay | Happening::Heal | Happening::Loss => true,
            // A clock that is set forward earns what the leap is worth (docs/decisions/005).
            Happening::ClockSteps if is_bucket => false,
            _ => on_unreachable == OnUnreachable::Refuse,
        };
        let count = if nodes >= 30 { random.below(3) } else { random.below(7) };
        let happenings = (0..count).map(|_| one_of(&mut random, &all, Happening::Heal)).filter(may).collect();
        Self {
            seed,
            nodes,
            limit,
            on_unreachable,
            load: one_of(&mut random, &[0.8, 1.5, 6.0], 1.5),
            shape: one_of(&mut random, &Shape::ALL, Shape::Uniform),
            most_cost: one_of(&mut random, &[1, 1, 5, 20], 1),
            bad_network: random.chance(600),
            happenings,
            random,
        }
    }

    /// What may be admitted beyond the limit: nothing, or where an owner that cannot be reached is no reason to
    /// refuse, an even share for each of the others. Where windows are split, their shares are held anyway. A bucket has no windows: its
    /// owner may be lost twice in the time that is looked at, and each time its parts are given.
    #[must_use]
    pub fn allowed(&self) -> u64 {
        let (limit, nodes) = (u64::from(self.limit.burst()), self.nodes as u64);
        let is_split = matches!(self.limit, Limit::FixedWindow(_)) && limit / nodes >= 10;
        if self.on_unreachable == OnUnreachable::Refuse || is_split {
            0
        } else {
            let is_loss = |what: &&Happening| {
                matches!(
                    what,
                    Happening::Crash
                        | Happening::CrashForgotten
                        | Happening::CutInHalf
                        | Happening::CutOneWay
                )
            };
            let losses = self.happenings.iter().filter(is_loss).count() as u64;
            let times = if matches!(self.limit, Limit::TokenBucket(_)) { losses.max(1) } else { 1 };
            times * (nodes - 1) * limit.div_ceil(nodes)
        }
    }

    /// Plays it.
    #[must_use]
    pub fn play(&self) -> Played {
        let mut random = self.random.clone();
        let mut options = MeshOptions { on_unreachable: self.on_unreachable, ..MeshOptions::default() };
        // A node that founds a mesh of its own while it is cut off is another story.
        options.council.found_after = None;
        let network = if self.bad_network { Network::bad() } else { Network::default() };
        let mut world = World::new(self.seed, network, options, 30_000);
        let period_us = u64::try_from(self.limit.period().length().as_micros()).unwrap_or(DAY);
        if period_us > 10 * SECOND {
            world.begin_at(DAY - 4 * SECOND); // So that it sees the edge of a long window.
        }
        if self.nodes >= 30 {
            world.tick_every(10_000, 25_000);
        }
        world.start_together(self.nodes);
        // A long window gets within the run what its limit is worth.
        let pace_us = period_us.min(4 * SECOND);
        let amount = f64::from(self.limit.requests());
        #[expect(clippy::cast_precision_loss, reason = "costs and periods are small")]
        let rate = self.load * amount * 1e6 / pace_us as f64 * 2.0 / (self.most_cost + 1) as f64;
        let key = Key::from_bits(random.draw(), random.draw());
        let (shape, rate) = (self.shape, rate.min(3_000.0));
        let traffic =
            Traffic::new(shape, rate, self.nodes, pace_us.min(SECOND), self.most_cost, random.clone());
        world.add_counter(key, self.limit, traffic);
        world.discover(&(0..self.nodes + 3).collect::<Vec<_>>());
        let end = if self.nodes >= 30 { 7 * SECOND } else { 10 * SECOND };
        self.happen(&mut world, &mut random);
        world.network.cut = None;
        world.run_until(world.elapsed_us().max(end - 2 * SECOND) + 2 * SECOND);
        self.outcome(&world)
    }

    fn happen(&self, world: &mut World, random: &mut Random) {
        let nodes = self.nodes;
        for happening in &self.happenings {
            world.run_until(world.elapsed_us() + 200_000 + random.below(2 * SECOND));
            let who = usize::try_from(random.below(nodes as u64)).unwrap_or(0);
            match happening {
                Happening::Join => {
                    world.start(nodes + usize::try_from(random.below(3)).unwrap_or(0));
                    world.spread_over(nodes + 1);
                    world.discover(&(0..nodes + 3).collect::<Vec<_>>());
                }
                Happening::Leave => world.leave(who),
                Happening::Crash => world.crash(who),
                Happening::CrashForgotten => {
                    world.crash(who);
                    world.discover(&(0..nodes + 3).filter(|index| *index != who).collect::<Vec<_>>());
                }
                Happening::Restart => {
                    world.crash(who);
                    world.run_until(world.elapsed_us() + random.below(100_000));
                    world.start(who);
                    world.discover(&(0..nodes + 3).collect::<Vec<_>>());
                }
                Happening::CutInHalf => {
                    (world.network.cut, world.network.one_way) = (Some(nodes / 2), false);
                }
                Happening::CutOneWay => {
                    (world.network.cut, world.network.one_way) = (Some(1 + who.min(nodes - 2)), true);
                }
                Happening::Heal => world.network.cut = None,
                Happening::ClockSteps => {
                    let by = i64::try_from(random.below(1_500_000)).unwrap_or(0) - 750_000;
                    world.step_clock(who, by);
                }
                Happening::Loss => world.network.loss = random.below(300),
            }
        }
    }

    fn outcome(&self, world: &World) -> Played {
        let over = world.tally(0).map_or(0, super::Tally::most_over);
        let admitted = world.tally(0).map_or(0, |tally| tally.admitted);
        let nodes = (0..self.nodes + 3).filter_map(|index| world.node(index));
        let overlaps = nodes.map(|node| node.standing(Timestamp::MAX).overlaps).sum();
        let (bytes, frames, requests, waited) = world.sent;
        let digest = [bytes, frames, requests, waited, admitted]
            .iter()
            .fold(self.seed, |sum, number| sum.wrapping_mul(0x0100_0000_01b3) ^ number);
        Played { over, admitted, overlaps, digest }
    }

    /// Counts what it draws, so that one can see that everything was drawn.
    pub fn count(&self, coverage: &mut BTreeMap<String, u64>) {
        let kind = match self.limit {
            Limit::TokenBucket(_) => "bucket".to_owned(),
            Limit::SlidingWindow(_) => format!("sliding window of {:?}", self.limit.period().length()),
            _ => format!("window of {:?}", self.limit.period().length()),
        };
        let mut drawn = vec![
            format!("nodes: {}", self.nodes),
            format!("limit: {kind}"),
            format!("traffic: {:?}", self.shape),
            format!("costs up to: {}", self.most_cost),
            format!("network: {}", if self.bad_network { "bad" } else { "good" }),
            format!("owner unreachable: {:?}", self.on_unreachable),
        ];
        drawn.extend(self.happenings.iter().map(|happening| format!("happens: {happening:?}")));
        for what in drawn {
            *coverage.entry(what).or_default() += 1;
        }
    }
}
