//! Random scenario: number of nodes, limit, traffic, costs, network and events are drawn from the seed. The check is whether
//! more was admitted than allowed.

use super::network::Network;
use super::scenario::ScenarioResult;
use super::traffic::{TrafficShape, TrafficSource};
use super::world::World;
use hivemind_core::store::Key;
use hivemind_core::{Limit, Period, Rate, Timestamp};
use hivemind_mesh::testing::Random;
use hivemind_mesh::{MeshOptions, OnUnreachable};
use std::collections::BTreeMap;
use std::time::Duration;

const SECOND: u64 = 1_000_000;
const DAY: u64 = 86_400 * SECOND;

/// An event of a random scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ScenarioEvent {
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

/// A scenario whose parameters are all drawn from the seed.
///
/// ```
/// use hivemind_mesh_sim::RandomScenario;
///
/// let (draw, again) = (RandomScenario::of(7), RandomScenario::of(7)); // Not played yet.
/// assert_eq!((draw.nodes, draw.limit, draw.allowance()), (again.nodes, again.limit, again.allowance()));
/// let mut coverage = std::collections::BTreeMap::new();
/// draw.count(&mut coverage); // Parameters, to check the coverage of many seeds.
/// ```
#[derive(Clone, Debug)]
pub struct RandomScenario {
    seed: u64,
    /// Initial number of nodes.
    pub nodes: usize,
    /// The limit.
    pub limit: Limit,
    /// Behavior while an owner is unreachable.
    pub on_unreachable: OnUnreachable,
    load: f64,
    shape: TrafficShape,
    max_cost: u64,
    bad_network: bool,
    events: Vec<ScenarioEvent>,
    random: Random,
}

fn choose<T: Copy>(random: &mut Random, list: &[T], otherwise: T) -> T {
    let place = usize::try_from(random.below(list.len() as u64)).unwrap_or(0);
    list.get(place).copied().unwrap_or(otherwise)
}

fn draw_limit(random: &mut Random) -> Limit {
    let amount = choose(random, &[1, 5, 20, 101, 400, 3_000], 5);
    let millis = choose(random, &[300, 1_000, 1_000, 7_000, 60_000, 3_600_000, 86_400_000], 1_000);
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

impl RandomScenario {
    /// The scenario of this seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0xd7a3);
        let nodes = match random.below(100) {
            0 => 100,
            1..4 => 30,
            _ => choose(&mut random, &[3, 3, 4, 5, 7, 10], 3),
        };
        let limit = draw_limit(&mut random);
        let all = {
            use ScenarioEvent::{
                ClockSteps, Crash, CrashForgotten, CutInHalf, CutOneWay, Heal, Join, Leave, Loss, Restart,
            };
            [Join, Leave, Crash, CrashForgotten, Restart, CutInHalf, CutOneWay, Heal, ClockSteps, Loss]
        };
        // The bound of `share` holds only while the nodes stay the same.
        let on_unreachable = if random.chance(200) { OnUnreachable::Share } else { OnUnreachable::Refuse };
        let is_bucket = matches!(limit, Limit::TokenBucket(_));
        let may = |event: &ScenarioEvent| match event {
            ScenarioEvent::CutInHalf
            | ScenarioEvent::CutOneWay
            | ScenarioEvent::Heal
            | ScenarioEvent::Loss => true,
            // A clock that is set forward refills a bucket by the leap (docs/decisions/005).
            ScenarioEvent::ClockSteps if is_bucket => false,
            _ => on_unreachable == OnUnreachable::Refuse,
        };
        let count = if nodes >= 30 { random.below(3) } else { random.below(7) };
        let events = (0..count).map(|_| choose(&mut random, &all, ScenarioEvent::Heal)).filter(may).collect();
        Self {
            seed,
            nodes,
            limit,
            on_unreachable,
            load: choose(&mut random, &[0.8, 1.5, 6.0], 1.5),
            shape: choose(&mut random, &TrafficShape::ALL, TrafficShape::Uniform),
            max_cost: choose(&mut random, &[1, 1, 5, 20], 1),
            bad_network: random.chance(600),
            events,
            random,
        }
    }

    /// Allowed admissions beyond the limit: none, or with `share` an even share for each node that loses its owner. Split
    /// windows have their shares anyway. A bucket has no windows, so each loss of its owner grants the shares again.
    #[must_use]
    pub fn allowance(&self) -> u64 {
        let (limit, nodes) = (u64::from(self.limit.burst()), self.nodes as u64);
        let is_split = matches!(self.limit, Limit::FixedWindow(_)) && limit / nodes >= 10;
        if self.on_unreachable == OnUnreachable::Refuse || is_split {
            0
        } else {
            let is_loss = |what: &&ScenarioEvent| {
                matches!(
                    what,
                    ScenarioEvent::Crash
                        | ScenarioEvent::CrashForgotten
                        | ScenarioEvent::CutInHalf
                        | ScenarioEvent::CutOneWay
                )
            };
            let losses = self.events.iter().filter(is_loss).count() as u64;
            let times = if matches!(self.limit, Limit::TokenBucket(_)) { losses.max(1) } else { 1 };
            times * (nodes - 1) * limit.div_ceil(nodes)
        }
    }

    /// Runs the scenario.
    #[must_use]
    pub fn play(&self) -> ScenarioResult {
        let mut random = self.random.clone();
        let mut options = MeshOptions { on_unreachable: self.on_unreachable, ..MeshOptions::default() };
        // A disconnected node does not found a mesh of its own here.
        options.membership.found_after = None;
        let network = if self.bad_network { Network::bad() } else { Network::default() };
        let mut world = World::new(self.seed, network, options, 30_000);
        let period_us = u64::try_from(self.limit.period().length().as_micros()).unwrap_or(DAY);
        if period_us > 10 * SECOND {
            world.begin_at(DAY - 4 * SECOND); // The run contains the end of a long window.
        }
        if self.nodes >= 30 {
            world.tick_every(10_000, 25_000);
        }
        world.start_together(self.nodes);
        // Offers the limit of a long window within the run.
        let pace_us = period_us.min(4 * SECOND);
        let amount = f64::from(self.limit.requests());
        #[expect(clippy::cast_precision_loss, reason = "costs and periods are small")]
        let rate = self.load * amount * 1e6 / pace_us as f64 * 2.0 / (self.max_cost + 1) as f64;
        let key = Key::from_bits(random.draw(), random.draw());
        let (shape, rate) = (self.shape, rate.min(3_000.0));
        let traffic =
            TrafficSource::new(shape, rate, self.nodes, pace_us.min(SECOND), self.max_cost, random.clone());
        world.add_counter(key, self.limit, traffic);
        world.discover(&(0..self.nodes + 3).collect::<Vec<_>>());
        let end = if self.nodes >= 30 { 7 * SECOND } else { 10 * SECOND };
        self.run_events(&mut world, &mut random);
        world.network.cut = None;
        world.run_until(world.elapsed_us().max(end - 2 * SECOND) + 2 * SECOND);
        self.outcome(&world)
    }

    fn run_events(&self, world: &mut World, random: &mut Random) {
        let nodes = self.nodes;
        for event in &self.events {
            world.run_until(world.elapsed_us() + 200_000 + random.below(2 * SECOND));
            let node = usize::try_from(random.below(nodes as u64)).unwrap_or(0);
            match event {
                ScenarioEvent::Join => {
                    world.start(nodes + usize::try_from(random.below(3)).unwrap_or(0));
                    world.spread_traffic(nodes + 1);
                    world.discover(&(0..nodes + 3).collect::<Vec<_>>());
                }
                ScenarioEvent::Leave => world.leave(node),
                ScenarioEvent::Crash => world.crash(node),
                ScenarioEvent::CrashForgotten => {
                    world.crash(node);
                    world.discover(&(0..nodes + 3).filter(|index| *index != node).collect::<Vec<_>>());
                }
                ScenarioEvent::Restart => {
                    world.crash(node);
                    world.run_until(world.elapsed_us() + random.below(100_000));
                    world.start(node);
                    world.discover(&(0..nodes + 3).collect::<Vec<_>>());
                }
                ScenarioEvent::CutInHalf => {
                    (world.network.cut, world.network.one_way) = (Some(nodes / 2), false);
                }
                ScenarioEvent::CutOneWay => {
                    (world.network.cut, world.network.one_way) = (Some(1 + node.min(nodes - 2)), true);
                }
                ScenarioEvent::Heal => world.network.cut = None,
                ScenarioEvent::ClockSteps => {
                    let by = i64::try_from(random.below(1_500_000)).unwrap_or(0) - 750_000;
                    world.step_clock(node, by);
                }
                ScenarioEvent::Loss => world.network.loss = random.below(300),
            }
        }
    }

    fn outcome(&self, world: &World) -> ScenarioResult {
        let over = world.tally(0).map_or(0, super::AdmissionTally::max_excess);
        let admitted = world.tally(0).map_or(0, |tally| tally.admitted);
        let nodes = (0..self.nodes + 3).filter_map(|index| world.node(index));
        let overlaps = nodes.map(|node| node.standing(Timestamp::MAX).overlaps).sum();
        let (bytes, frames, requests, waited) = world.sent;
        let digest = [bytes, frames, requests, waited, admitted]
            .iter()
            .fold(self.seed, |sum, number| sum.wrapping_mul(0x0100_0000_01b3) ^ number);
        ScenarioResult { over, admitted, overlaps, digest }
    }

    /// Counts the drawn parameters, to check that all are covered.
    pub fn count(&self, coverage: &mut BTreeMap<String, u64>) {
        let kind = match self.limit {
            Limit::TokenBucket(_) => "bucket".to_owned(),
            Limit::SlidingWindow(_) => format!("sliding window of {:?}", self.limit.period().length()),
            _ => format!("window of {:?}", self.limit.period().length()),
        };
        let mut labels = vec![
            format!("nodes: {}", self.nodes),
            format!("limit: {kind}"),
            format!("traffic: {:?}", self.shape),
            format!("costs up to: {}", self.max_cost),
            format!("network: {}", if self.bad_network { "bad" } else { "good" }),
            format!("owner unreachable: {:?}", self.on_unreachable),
        ];
        labels.extend(self.events.iter().map(|event| format!("event: {event:?}")));
        for label in labels {
            *coverage.entry(label).or_default() += 1;
        }
    }
}
