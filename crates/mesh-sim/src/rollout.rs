//! Many slow buckets while nodes come, go and restart, so that buckets go from hand to hand: a mesh that is founded by one
//! node after the other, a rolling restart, a node that joins and leaves again, one that crashes. Each bucket is asked for
//! a little more than it holds, at a time of its own. The questions are whether one admitted more than one bucket may,
//! and how much less it did.

use super::network::Network;
use super::world::World;
use hivemind_core::store::Key;
use hivemind_core::{Limit, Period, Rate};
use hivemind_mesh::testing::Random;
use hivemind_mesh::{MeshOptions, OnUnreachable};

const SECOND: u64 = 1_000_000;
/// How long a run takes.
const END: u64 = 34 * SECOND;
const BUCKETS: usize = 24;

/// What happens to the mesh.
///
/// ```
/// use hivemind_mesh_sim::Rollout;
///
/// assert!(Rollout::ALL.contains(&Rollout::Rolling)); // As an orchestrator does it.
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rollout {
    /// Nodes start one after the other, and the first founds the mesh.
    Founded,
    /// Each node leaves, ends and comes back.
    Rolling,
    /// One more comes, and leaves again.
    Visited,
    /// Nodes end without a word and come back, at once or later.
    Crashed,
    /// Any of that, in any order, with cuts.
    Anything,
}

/// What came of it.
///
/// ```
/// use hivemind_mesh_sim::{RolledOut, Rollout};
///
/// let RolledOut { over, admitted, possible, .. } = Rollout::Visited.play(1, true);
/// assert!(over == 0 && admitted <= possible);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RolledOut {
    /// The most that a bucket admitted beyond what one bucket may.
    pub over: u64,
    /// What all admitted, and what one node alone would have.
    pub admitted: u64,
    /// See there.
    pub possible: u64,
    /// How often two views were found for the same time.
    pub overlaps: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Start(usize),
    Leave(usize),
    Crash(usize),
    Forget(usize),
    Cut(usize),
    Heal,
    Hit { counter: usize, draw: usize },
}

impl Rollout {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Founded, Self::Rolling, Self::Visited, Self::Crashed, Self::Anything];

    /// Plays it with this seed; without `hand_over` a bucket that changes hands begins empty.
    #[must_use]
    pub fn play(self, seed: u64, hand_over: bool) -> RolledOut {
        let mut random = Random::new(seed ^ 0x0a11);
        let mut options =
            MeshOptions { on_unreachable: OnUnreachable::Refuse, hand_over, ..MeshOptions::default() };
        // A node that founds a mesh of its own while it is cut off is another story.
        options.council.found_after = None;
        let network = if seed.is_multiple_of(3) { Network::bad() } else { Network::default() };
        let mut world = World::new(seed, network, options, 20_000);
        let nodes = 3 + usize::try_from(random.below(3)).unwrap_or(0);
        let first = if self == Self::Founded { 1 } else { nodes };
        world.start_together(first);
        let mut steps = self.steps(nodes, &mut random);
        for bucket in 0..BUCKETS {
            let limit = slow(&mut random);
            let counter = world.add_limit(Key::from_bits(random.draw(), random.draw()), limit);
            debug_assert_eq!(counter, bucket);
            let from = random.below(END - 3 * SECOND);
            for _ in 0..limit.burst() + 3 {
                let draw = usize::try_from(random.below(64)).unwrap_or(0);
                steps.push((from + random.below(END - from - SECOND), Step::Hit { counter, draw }));
            }
        }
        steps.sort_unstable();
        let mut names: Vec<usize> = (0..=nodes).collect();
        world.discover(&names);
        for (at, step) in steps {
            world.run_until(at);
            match step {
                Step::Start(who) => {
                    world.start(who);
                    if !names.contains(&who) {
                        names.push(who);
                    }
                    world.discover(&names);
                }
                Step::Leave(who) => world.leave(who),
                Step::Crash(who) => world.crash(who),
                Step::Forget(who) => {
                    names.retain(|name| *name != who);
                    world.discover(&names);
                }
                Step::Cut(place) => world.network.cut = Some(place),
                Step::Heal => world.network.cut = None,
                Step::Hit { counter, draw } => {
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

    fn steps(self, nodes: usize, random: &mut Random) -> Vec<(u64, Step)> {
        let mut steps = Vec::new();
        let mut restart = |who: usize, at: u64, pause: u64| {
            steps.extend([(at, Step::Leave(who)), (at + 4 * SECOND, Step::Crash(who))]);
            steps.push((at + 4 * SECOND + pause, Step::Start(who)));
        };
        match self {
            Self::Founded => {
                for who in 1..nodes {
                    steps.push((SECOND + random.below(8 * SECOND), Step::Start(who)));
                }
            }
            Self::Rolling => {
                for who in 0..3 {
                    restart(who, SECOND + who as u64 * 10 * SECOND, random.below(2 * SECOND));
                }
            }
            Self::Visited => {
                steps.push((SECOND + random.below(4 * SECOND), Step::Start(nodes)));
                let at = 9 * SECOND + random.below(12 * SECOND);
                steps.extend([(at, Step::Leave(nodes)), (at + 5 * SECOND, Step::Crash(nodes))]);
            }
            Self::Crashed => {
                for round in 0..3 {
                    let (who, at) = (pick(random, nodes), round * 10 * SECOND + random.below(3 * SECOND));
                    steps.push((at, Step::Crash(who)));
                    if random.chance(500) {
                        steps.push((at + SECOND, Step::Forget(who)));
                    }
                    steps.push((at + random.below(7 * SECOND), Step::Start(who)));
                }
            }
            Self::Anything => {
                for _ in 0..8 {
                    let (who, at) = (pick(random, nodes), random.below(END - 5 * SECOND));
                    let step = match random.below(7) {
                        0 => Step::Start(nodes),
                        1 => Step::Leave(pick(random, nodes + 1)),
                        2 => Step::Crash(who),
                        3 | 4 => Step::Start(who),
                        5 => Step::Cut(1 + who.min(nodes - 2)),
                        _ => Step::Heal,
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

/// Five an hour, and some that earn within the run.
fn slow(random: &mut Random) -> Limit {
    let (amount, period, burst) = match random.below(5) {
        0 | 1 => (5, Period::HOUR, 5),
        2 => (60, Period::HOUR, 20),
        3 => (30, Period::MINUTE, 12),
        _ => (3, Period::SECOND, 25),
    };
    let bucket = Rate::new(amount, period).and_then(|rate| Limit::token_bucket(rate, burst));
    bucket.unwrap_or(Limit::fixed_window(amount, period))
}

fn outcome(world: &World, nodes: usize) -> RolledOut {
    let mut all = RolledOut::default();
    for tally in (0..BUCKETS).filter_map(|counter| world.tally(counter)) {
        all.over = all.over.max(tally.most_over());
        all.admitted += tally.admitted;
        all.possible += tally.by_one;
    }
    let living = (0..=nodes).filter_map(|index| world.node(index));
    all.overlaps = living.map(|node| node.standing(hivemind_core::Timestamp::MAX).overlaps).sum();
    all
}
