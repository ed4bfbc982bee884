//! Handoff scenario: slow buckets change their owners while nodes start, leave, restart and crash. Each bucket receives a few
//! more requests than it holds, at random times. The checks are whether a bucket admitted more than a single one, and how
//! much less.

use super::network::Network;
use super::world::World;
use hivemind_core::store::Key;
use hivemind_core::{Limit, Period, Rate};
use hivemind_mesh::testing::Random;
use hivemind_mesh::{MeshOptions, OnUnreachable};

const SECOND: u64 = 1_000_000;
/// Length of a run.
const END: u64 = 34 * SECOND;
const BUCKETS: usize = 24;

/// Changes of the membership.
///
/// ```
/// use hivemind_mesh_sim::HandoffScenario;
///
/// assert!(HandoffScenario::ALL.contains(&HandoffScenario::RollingRestart)); // As orchestrators restart pods.
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandoffScenario {
    /// Nodes start in sequence, and the first founds the mesh.
    Founding,
    /// Each node leaves, stops and restarts.
    RollingRestart,
    /// One more node joins and leaves again.
    TemporaryNode,
    /// Nodes crash and restart, immediately or later.
    Crashes,
    /// All of these in random order, with partitions.
    Everything,
}

/// Result of a handoff scenario.
///
/// ```
/// use hivemind_mesh_sim::{HandoffResult, HandoffScenario};
///
/// let HandoffResult { over, admitted, possible, .. } = HandoffScenario::TemporaryNode.play(1, true);
/// assert!(over == 0 && admitted <= possible);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HandoffResult {
    /// Maximum excess of a bucket over a single one.
    pub over: u64,
    /// Total admissions.
    pub admitted: u64,
    /// Admissions of a single node with the same requests.
    pub possible: u64,
    /// Number of conflicting views for the same time.
    pub overlaps: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum HandoffStep {
    Start(usize),
    Leave(usize),
    Crash(usize),
    Forget(usize),
    Cut(usize),
    Heal,
    Hit { counter: usize, draw: usize },
}

impl HandoffScenario {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Founding, Self::RollingRestart, Self::TemporaryNode, Self::Crashes, Self::Everything];

    /// Runs the scenario with this seed. Without `handoff`, a bucket with a new owner starts empty.
    #[must_use]
    pub fn play(self, seed: u64, handoff: bool) -> HandoffResult {
        let mut random = Random::new(seed ^ 0x0a11);
        let mut options =
            MeshOptions { on_unreachable: OnUnreachable::Refuse, handoff, ..MeshOptions::default() };
        // A disconnected node does not found a mesh of its own here.
        options.membership.found_after = None;
        let network = if seed.is_multiple_of(3) { Network::bad() } else { Network::default() };
        let mut world = World::new(seed, network, options, 20_000);
        let nodes = 3 + usize::try_from(random.below(3)).unwrap_or(0);
        let first = if self == Self::Founding { 1 } else { nodes };
        world.start_together(first);
        let mut steps = self.steps(nodes, &mut random);
        for bucket in 0..BUCKETS {
            let limit = draw_slow_bucket(&mut random);
            let counter = world.add_limit(Key::from_bits(random.draw(), random.draw()), limit);
            debug_assert_eq!(counter, bucket);
            let from = random.below(END - 3 * SECOND);
            for _ in 0..limit.burst() + 3 {
                let draw = usize::try_from(random.below(64)).unwrap_or(0);
                steps.push((from + random.below(END - from - SECOND), HandoffStep::Hit { counter, draw }));
            }
        }
        steps.sort_unstable();
        let mut names: Vec<usize> = (0..=nodes).collect();
        world.discover(&names);
        for (at, step) in steps {
            world.run_until(at);
            match step {
                HandoffStep::Start(node) => {
                    world.start(node);
                    if !names.contains(&node) {
                        names.push(node);
                    }
                    world.discover(&names);
                }
                HandoffStep::Leave(node) => world.leave(node),
                HandoffStep::Crash(node) => world.crash(node),
                HandoffStep::Forget(node) => {
                    names.retain(|name| *name != node);
                    world.discover(&names);
                }
                HandoffStep::Cut(place) => world.network.cut = Some(place),
                HandoffStep::Heal => world.network.cut = None,
                HandoffStep::Hit { counter, draw } => {
                    let living: Vec<usize> = (0..=nodes).filter(|node| world.is_alive(*node)).collect();
                    if let Some(node) = living.get(draw % living.len().max(1)) {
                        world.hit(*node, counter, 1);
                    }
                }
            }
        }
        world.run_until(END);
        outcome(&world, nodes)
    }

    fn steps(self, nodes: usize, random: &mut Random) -> Vec<(u64, HandoffStep)> {
        let mut steps = Vec::new();
        let mut restart = |node: usize, at: u64, pause: u64| {
            steps.extend([(at, HandoffStep::Leave(node)), (at + 4 * SECOND, HandoffStep::Crash(node))]);
            steps.push((at + 4 * SECOND + pause, HandoffStep::Start(node)));
        };
        match self {
            Self::Founding => {
                for node in 1..nodes {
                    steps.push((SECOND + random.below(8 * SECOND), HandoffStep::Start(node)));
                }
            }
            Self::RollingRestart => {
                for node in 0..3 {
                    restart(node, SECOND + node as u64 * 10 * SECOND, random.below(2 * SECOND));
                }
            }
            Self::TemporaryNode => {
                steps.push((SECOND + random.below(4 * SECOND), HandoffStep::Start(nodes)));
                let at = 9 * SECOND + random.below(12 * SECOND);
                steps.extend([(at, HandoffStep::Leave(nodes)), (at + 5 * SECOND, HandoffStep::Crash(nodes))]);
            }
            Self::Crashes => {
                for round in 0..3 {
                    let (node, at) = (pick(random, nodes), round * 10 * SECOND + random.below(3 * SECOND));
                    steps.push((at, HandoffStep::Crash(node)));
                    if random.chance(500) {
                        steps.push((at + SECOND, HandoffStep::Forget(node)));
                    }
                    steps.push((at + random.below(7 * SECOND), HandoffStep::Start(node)));
                }
            }
            Self::Everything => {
                for _ in 0..8 {
                    let (node, at) = (pick(random, nodes), random.below(END - 5 * SECOND));
                    let step = match random.below(7) {
                        0 => HandoffStep::Start(nodes),
                        1 => HandoffStep::Leave(pick(random, nodes + 1)),
                        2 => HandoffStep::Crash(node),
                        3 | 4 => HandoffStep::Start(node),
                        5 => HandoffStep::Cut(1 + node.min(nodes - 2)),
                        _ => HandoffStep::Heal,
                    };
                    steps.push((at, step));
                }
            }
        }
        steps
    }
}

fn pick(random: &mut Random, nodes: usize) -> usize {
    usize::try_from(random.below(nodes as u64)).unwrap_or(0)
}

/// Five per hour, or a faster bucket that refills within the run.
fn draw_slow_bucket(random: &mut Random) -> Limit {
    let (amount, period, burst) = match random.below(5) {
        0 | 1 => (5, Period::HOUR, 5),
        2 => (60, Period::HOUR, 20),
        3 => (30, Period::MINUTE, 12),
        _ => (3, Period::SECOND, 25),
    };
    let bucket = Rate::new(amount, period).and_then(|rate| Limit::token_bucket(rate, burst));
    bucket.unwrap_or(Limit::fixed_window(amount, period))
}

fn outcome(world: &World, nodes: usize) -> HandoffResult {
    let mut all = HandoffResult::default();
    for tally in (0..BUCKETS).filter_map(|counter| world.tally(counter)) {
        all.over = all.over.max(tally.max_excess());
        all.admitted += tally.admitted;
        all.possible += tally.single_bucket;
    }
    let living = (0..=nodes).filter_map(|index| world.node(index));
    all.overlaps = living.map(|node| node.standing(hivemind_core::Timestamp::MAX).overlaps).sum();
    all
}
