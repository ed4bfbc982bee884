//! Named scenarios of failures and membership changes, played with many seeds. The check is always whether a window admitted
//! more than its limit.

use super::network::Network;
use super::traffic::{TrafficShape, TrafficSource};
use super::world::World;
use hivemind_core::store::Key;
use hivemind_core::{Limit, Period, Rate};
use hivemind_mesh::testing::Random;
use hivemind_mesh::{MeshOptions, OnUnreachable};

/// A named scenario.
///
/// ```
/// use hivemind_mesh_sim::scenarios;
///
/// let calm = scenarios().into_iter().filter(|scenario| !scenario.changes_views);
/// assert!(calm.map(|scenario| scenario.name).any(|name| name == "nothing happens"));
/// ```
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// Initial number of nodes.
    pub nodes: usize,
    /// Whether the view changes.
    pub changes_views: bool,
    play: fn(&mut World, &mut Random, u64),
}

/// Result of a scenario.
///
/// ```
/// use hivemind_core::{Limit, Period};
/// use hivemind_mesh_sim::scenarios;
///
/// let result = scenarios()[0].play(1, Limit::fixed_window(5, Period::SECOND), 1.5);
/// assert!(result.over == 0 && result.overlaps == 0 && result.admitted > 0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScenarioResult {
    /// Maximum excess of a window over its limit.
    pub over: u64,
    /// Total admissions.
    pub admitted: u64,
    /// Number of conflicting views for the same windows.
    pub overlaps: u64,
    /// Hash of the numbers of frames and decisions: equal for equal runs.
    pub digest: u64,
}

const SECOND: u64 = 1_000_000;

impl Scenario {
    /// Runs the scenario with this seed and limit.
    #[must_use]
    pub fn play(&self, seed: u64, limit: Limit, load: f64) -> ScenarioResult {
        self.play_under(OnUnreachable::Refuse, seed, limit, load)
    }

    /// Runs the scenario with this seed and limit, and this behavior while an owner is unreachable.
    ///
    /// ```
    /// # use hivemind_core::{Limit, OnUnreachable, Period};
    /// # use hivemind_mesh_sim::scenarios;
    /// let limit = Limit::fixed_window(5, Period::SECOND);
    /// assert!(scenarios()[0].play_under(OnUnreachable::Admit, 1, limit, 0.5).admitted > 0);
    /// ```
    #[must_use]
    pub fn play_under(
        &self,
        on_unreachable: OnUnreachable,
        seed: u64,
        limit: Limit,
        load: f64,
    ) -> ScenarioResult {
        let mut random = Random::new(seed ^ 0xa11);
        let mut options = MeshOptions { on_unreachable, ..MeshOptions::default() };
        // A disconnected node does not found a mesh of its own here.
        options.membership.found_after = None;
        let network = if seed.is_multiple_of(3) { Network::default() } else { Network::bad() };
        let mut world = World::new(seed, network, options, 30_000);
        world.start_together(self.nodes);
        let shapes = [
            TrafficShape::Uniform,
            TrafficShape::Zipf,
            TrafficShape::Single,
            TrafficShape::Moving,
            TrafficShape::OnOff,
            TrafficShape::Spike,
        ];
        let shape =
            shapes.get(usize::try_from(random.below(6)).unwrap_or(0)).copied().unwrap_or(TrafficShape::Zipf);
        let window_us = u64::try_from(limit.period().length().as_micros()).unwrap_or(u64::MAX);
        let rate = load * f64::from(limit.requests()) / limit.period().length().as_secs_f64();
        let key = Key::from_bits(random.draw(), random.draw());
        let max_cost = if random.chance(333) { 5 } else { 1 };
        let traffic = TrafficSource::new(shape, rate, self.nodes, window_us, max_cost, random.clone());
        world.add_counter(key, limit, traffic);
        world.discover(&(0..self.nodes + 3).collect::<Vec<_>>());
        (self.play)(&mut world, &mut random, seed);
        let over = world.tally(0).map_or(0, super::AdmissionTally::max_excess);
        let admitted = world.tally(0).map_or(0, |tally| tally.admitted);
        let nodes = (0..self.nodes + 3).filter_map(|index| world.node(index));
        let overlaps = nodes.map(|node| node.standing(hivemind_core::Timestamp::MAX).overlaps).sum();
        let (bytes, frames, requests, waited) = world.sent;
        let digest = [bytes, frames, requests, waited, admitted]
            .iter()
            .fold(seed, |sum, number| sum.wrapping_mul(0x0100_0000_01b3) ^ number);
        ScenarioResult { over, admitted, overlaps, digest }
    }
}

/// Small and large limits of all algorithms.
///
/// ```
/// use hivemind_mesh_sim::limits;
///
/// for algorithm in ["token_bucket", "fixed_window", "sliding_window"] {
///     assert!(limits().iter().any(|limit| limit.algorithm() == algorithm));
/// }
/// ```
///
/// # Panics
/// Never: these limits are valid.
#[must_use]
#[expect(clippy::unwrap_used, reason = "these limits are valid")]
pub fn limits() -> Vec<Limit> {
    let bucket = |rate: u32, burst: u32| Limit::token_bucket(Rate::per_second(rate).unwrap(), burst).unwrap();
    let short = Period::new(std::time::Duration::from_millis(300)).unwrap();
    vec![
        Limit::fixed_window(5, Period::SECOND),
        Limit::fixed_window(100, Period::SECOND),
        Limit::fixed_window(70, short),
        Limit::fixed_window(400, Period::SECOND.times(7).unwrap()),
        Limit::sliding_window(60, Period::SECOND),
        bucket(100, 40),
        bucket(200, 5),
        bucket(50, 200),
    ]
}

/// All scenarios.
///
/// ```
/// use hivemind_mesh_sim::scenarios;
///
/// for scenario in scenarios() {
///     println!("{} nodes: {}", scenario.nodes, scenario.name);
/// }
/// ```
#[must_use]
pub fn scenarios() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "nothing happens",
            changes_views: false,
            nodes: 5,
            play: |world, _, _| world.run_until(6 * SECOND),
        },
        Scenario { name: "a node joins", changes_views: true, nodes: 3, play: join },
        Scenario { name: "a node leaves", changes_views: true, nodes: 4, play: leave },
        Scenario {
            name: "a node crashes and comes back at once",
            changes_views: true,
            nodes: 4,
            play: restart,
        },
        Scenario {
            name: "a node crashes and discovery forgets it",
            changes_views: true,
            nodes: 4,
            play: die,
        },
        Scenario { name: "half and half are cut apart", changes_views: false, nodes: 6, play: half },
        Scenario { name: "one side does not hear the other", changes_views: false, nodes: 5, play: one_way },
        Scenario { name: "clocks step", changes_views: false, nodes: 5, play: clocks },
        Scenario { name: "everything happens", changes_views: true, nodes: 5, play: everything },
    ]
}

fn join(world: &mut World, random: &mut Random, _: u64) {
    world.run_until(SECOND + random.below(SECOND));
    world.start(3);
    world.spread_traffic(4);
    world.run_until(9 * SECOND);
}

fn leave(world: &mut World, random: &mut Random, _: u64) {
    world.run_until(SECOND + random.below(SECOND));
    world.leave(1);
    world.run_until(6 * SECOND);
    world.crash(1);
    world.run_until(9 * SECOND);
}

fn restart(world: &mut World, random: &mut Random, seed: u64) {
    world.run_until(SECOND + random.below(SECOND));
    let node = usize::try_from(seed % 4).unwrap_or(0);
    world.crash(node);
    world.run_until(world.elapsed_us() + random.below(400_000));
    world.start(node);
    world.discover(&[0, 1, 2, 3, 4, 5, 6]);
    world.run_until(9 * SECOND);
}

fn die(world: &mut World, random: &mut Random, seed: u64) {
    world.run_until(SECOND + random.below(SECOND));
    let node = usize::try_from(seed % 4).unwrap_or(0);
    world.crash(node);
    world.run_until(3 * SECOND);
    world.discover(&(0..4).filter(|index| *index != node).collect::<Vec<_>>());
    world.run_until(10 * SECOND);
}

fn half(world: &mut World, random: &mut Random, _: u64) {
    world.run_until(SECOND + random.below(SECOND));
    world.network.cut = Some(3);
    world.run_until(5 * SECOND);
    world.network.cut = None;
    world.run_until(8 * SECOND);
}

fn one_way(world: &mut World, random: &mut Random, _: u64) {
    world.run_until(SECOND + random.below(SECOND));
    (world.network.cut, world.network.one_way) = (Some(2), true);
    world.run_until(5 * SECOND);
    world.network.cut = None;
    world.run_until(8 * SECOND);
}

fn clocks(world: &mut World, random: &mut Random, _: u64) {
    for round in 1..6 {
        world.run_until(round * SECOND + random.below(SECOND));
        let by = i64::try_from(random.below(1_500_000)).unwrap_or(0) - 750_000;
        world.step_clock(usize::try_from(random.below(5)).unwrap_or(0), by);
    }
    world.run_until(8 * SECOND);
}

fn everything(world: &mut World, random: &mut Random, _: u64) {
    world.spread_traffic(7);
    for _ in 0..8 {
        let node = usize::try_from(random.below(5)).unwrap_or(0);
        match random.below(8) {
            0 => world.start(5 + usize::try_from(random.below(2)).unwrap_or(0)),
            1 => world.leave(node),
            2 => world.crash(node),
            3 | 4 => world.start(node),
            5 => (world.network.cut, world.network.one_way) = (Some(1 + node), random.chance(300)),
            6 => world.network.cut = None,
            _ => world.network.loss = random.below(300),
        }
        world.run_until(world.elapsed_us() + random.below(2 * SECOND));
    }
    world.network.cut = None;
    world.run_until(world.elapsed_us() + 3 * SECOND);
}
