//! One cell of the grid: so many nodes, one limit, one load, one shape; and the grid itself,
//! the 705 cells of the policy page.

use super::network::Network;
use super::traffic::{Shape, Traffic};
use super::world::{World, options_for_a_grid};
use hivemind_core::store::Key;
use hivemind_core::{Limit, Period};
use hivemind_mesh::MeshOptions;
use hivemind_mesh::testing::Random;

/// What is measured in one run.
///
/// ```
/// use hivemind_mesh_sim::{Cell, Network, Shape, options_for_a_grid};
///
/// let (options, network) = (options_for_a_grid(), Network::default());
/// let (limit, seconds, load) = (10, 1, 0.5);
/// let cell = Cell { nodes: 3, limit, seconds, load, shape: Shape::Uniform, most_cost: 1, options, network };
/// assert_eq!(cell.run(1).over, 0);
/// ```
#[derive(Clone, Debug)]
pub struct Cell {
    /// How many nodes.
    pub nodes: usize,
    /// How many requests in a window.
    pub limit: u32,
    /// The window, in seconds.
    pub seconds: u32,
    /// What is offered, of the limit.
    pub load: f64,
    /// Where from.
    pub shape: Shape,
    /// The highest cost of a request.
    pub most_cost: u64,
    /// How nodes are set.
    pub options: MeshOptions,
    /// How frames fare.
    pub network: Network,
}

/// What came out.
///
/// ```
/// use hivemind_mesh_sim::Outcome;
///
/// let Outcome { over, under, .. } = Outcome::default(); // Nothing was run, so nothing is wrong.
/// assert!(over == 0 && under == 0.0);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// The most that one window admitted beyond the limit.
    pub over: u64,
    /// Missed, of what could have been admitted.
    pub under: f64,
    /// Bytes a second and node.
    pub bytes: f64,
    /// Of all requests, those that waited for an owner.
    pub waited: f64,
}

impl Cell {
    pub(super) fn windows(&self) -> u64 {
        let small = self.limit <= 100;
        let most: u64 = match (self.seconds > 10, small) {
            (true, true) => 8,
            (true, false) => 6,
            (false, true) => 40,
            (false, false) => 20,
        };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few thousand at most")]
        let fit = (400_000.0 / (f64::from(self.limit) * self.load)) as u64;
        let fit = fit.clamp(6, most);
        match self.shape {
            Shape::Cold => 4,
            Shape::Spike => fit.max(if self.seconds > 10 { 8 } else { 12 }),
            _ => fit,
        }
    }

    /// The windows that are counted, from the start of the run: the first ones and the last are not.
    pub(super) fn counted(&self) -> std::ops::Range<u64> {
        match self.shape {
            Shape::Cold => 2..3,
            _ if self.seconds > 10 => 1..self.windows() - 1,
            _ => 4..self.windows() - 1,
        }
    }

    /// Runs it with this seed.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "figures to be read")]
    pub fn run(&self, seed: u64) -> Outcome {
        let runs = match (self.shape, self.limit <= 100) {
            (Shape::Cold, true) => 8,
            (Shape::Cold, false) => 2,
            _ => 1,
        };
        let mut all = Outcome::default();
        let (mut missed, mut could) = (0, 0);
        for run in 0..runs {
            let mut world = self.world(seed * 1_000 + run);
            let windows = self.windows();
            let window_us = u64::from(self.seconds) * 1_000_000;
            world.run_until(windows * window_us);
            let Some(tally) = world.tally(0) else { continue };
            let first = super::world::START_US / window_us;
            let counted = self.counted();
            let counted = first + counted.start..first + counted.end;
            let (miss, can) = tally.under(counted);
            (missed, could) = (missed + miss, could + can);
            all.over = all.over.max(tally.most_over());
            let (bytes, _, requests, waited) = world.sent;
            let spans = (windows * u64::from(self.seconds)) as f64 * self.nodes as f64 * runs as f64;
            all.bytes += bytes as f64 / spans;
            all.waited += waited as f64 / requests.max(1) as f64 / runs as f64;
        }
        all.under = missed as f64 / could.max(1) as f64;
        all
    }

    fn world(&self, seed: u64) -> World {
        let mut random = Random::new(seed ^ 0x5eed);
        let mut world = World::new(seed, self.network.clone(), self.options.clone(), 5_000);
        if self.seconds > 10 {
            world.tick_every(10_000, 50_000);
        }
        world.start_together(self.nodes);
        #[expect(clippy::unwrap_used, reason = "a few minutes make a period")]
        let period = Period::SECOND.times(self.seconds).unwrap();
        let limit = Limit::fixed_window(self.limit, period);
        #[expect(clippy::cast_precision_loss, reason = "costs are small")]
        let mean_cost = (self.most_cost + 1) as f64 / 2.0;
        let rate = self.load * f64::from(self.limit) / f64::from(self.seconds) / mean_cost;
        let window_us = u64::from(self.seconds) * 1_000_000;
        let key = Key::from_bits(random.draw(), random.draw());
        let traffic = Traffic::new(self.shape, rate, self.nodes, window_us, self.most_cost, random);
        world.add_counter(key, limit, traffic);
        world
    }
}

/// The 705 cells of the policy page.
///
/// ```
/// use hivemind_mesh_sim::grid;
///
/// assert_eq!(grid().len(), 705);
/// ```
#[must_use]
pub fn grid() -> Vec<Cell> {
    let limits = [(10, 1), (100, 1), (1_000, 1), (10_000, 1), (10, 60), (100, 60), (1_000, 60)];
    let mut cells = Vec::new();
    for (limit, seconds) in limits {
        for nodes in [3, 10, 30] {
            for shape in Shape::ALL {
                for load in [0.5, 0.9, 1.0, 1.5, 10.0] {
                    let heavy = limit >= 10_000 && load >= 10.0;
                    let unmeasured = matches!(shape, Shape::OnOff | Shape::Moving | Shape::Cold);
                    if shape == Shape::Spike && load > 1.5 || heavy && unmeasured {
                        continue;
                    }
                    let (options, network) = (options_for_a_grid(), Network::default());
                    cells.push(Cell { nodes, limit, seconds, load, shape, most_cost: 1, options, network });
                }
            }
        }
    }
    cells
}
