//! Grid of measurements: 705 combinations of nodes, limit, load and traffic shape, with over-admission and
//! under-admission of each.

use super::network::Network;
use super::traffic::{TrafficShape, TrafficSource};
use super::world::{World, grid_options};
use hivemind_core::store::Key;
use hivemind_core::{Limit, Period};
use hivemind_mesh::MeshOptions;
use hivemind_mesh::testing::Random;

/// One combination of parameters.
///
/// ```
/// use hivemind_mesh_sim::{GridCell, Network, TrafficShape, grid_options};
///
/// let (options, network) = (grid_options(), Network::default());
/// let (limit, seconds, load) = (10, 1, 0.5);
/// let cell = GridCell { nodes: 3, limit, seconds, load, shape: TrafficShape::Uniform, max_cost: 1, options, network };
/// assert_eq!(cell.run(1).over, 0);
/// ```
#[derive(Clone, Debug)]
pub struct GridCell {
    /// Number of nodes.
    pub nodes: usize,
    /// Limit per window.
    pub limit: u32,
    /// The window, in seconds.
    pub seconds: u32,
    /// Offered load, as a multiple of the limit.
    pub load: f64,
    /// Distribution of the requests.
    pub shape: TrafficShape,
    /// Maximum cost of a request.
    pub max_cost: u64,
    /// Options of the nodes.
    pub options: MeshOptions,
    /// The network.
    pub network: Network,
}

/// Result of a grid cell.
///
/// ```
/// use hivemind_mesh_sim::GridResult;
///
/// let GridResult { over, under, .. } = GridResult::default(); // The result of no run.
/// assert!(over == 0 && under == 0.0);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct GridResult {
    /// Maximum excess of one window over the limit.
    pub over: u64,
    /// Fraction of the admissible requests that was refused.
    pub under: f64,
    /// Bytes per second and node.
    pub bytes: f64,
    /// Fraction of the requests that waited for an owner.
    pub waited: f64,
}

impl GridCell {
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
            TrafficShape::Cold => 4,
            TrafficShape::Spike => fit.max(if self.seconds > 10 { 8 } else { 12 }),
            _ => fit,
        }
    }

    /// The measured windows, counted from the start of the run: without the first and the last ones.
    pub(super) fn counted(&self) -> std::ops::Range<u64> {
        match self.shape {
            TrafficShape::Cold => 2..3,
            _ if self.seconds > 10 => 1..self.windows() - 1,
            _ => 4..self.windows() - 1,
        }
    }

    /// Runs the cell with this seed.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "printed values")]
    pub fn run(&self, seed: u64) -> GridResult {
        let runs = match (self.shape, self.limit <= 100) {
            (TrafficShape::Cold, true) => 8,
            (TrafficShape::Cold, false) => 2,
            _ => 1,
        };
        let mut all = GridResult::default();
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
            all.over = all.over.max(tally.max_excess());
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
        let mean_cost = (self.max_cost + 1) as f64 / 2.0;
        let rate = self.load * f64::from(self.limit) / f64::from(self.seconds) / mean_cost;
        let window_us = u64::from(self.seconds) * 1_000_000;
        let key = Key::from_bits(random.draw(), random.draw());
        let traffic = TrafficSource::new(self.shape, rate, self.nodes, window_us, self.max_cost, random);
        world.add_counter(key, limit, traffic);
        world
    }
}

/// All 705 cells.
///
/// ```
/// use hivemind_mesh_sim::grid;
///
/// assert_eq!(grid().len(), 705);
/// ```
#[must_use]
pub fn grid() -> Vec<GridCell> {
    let limits = [(10, 1), (100, 1), (1_000, 1), (10_000, 1), (10, 60), (100, 60), (1_000, 60)];
    let mut cells = Vec::new();
    for (limit, seconds) in limits {
        for nodes in [3, 10, 30] {
            for shape in TrafficShape::ALL {
                for load in [0.5, 0.9, 1.0, 1.5, 10.0] {
                    let heavy = limit >= 10_000 && load >= 10.0;
                    let unmeasured =
                        matches!(shape, TrafficShape::OnOff | TrafficShape::Moving | TrafficShape::Cold);
                    if shape == TrafficShape::Spike && load > 1.5 || heavy && unmeasured {
                        continue;
                    }
                    let (options, network) = (grid_options(), Network::default());
                    cells.push(GridCell {
                        nodes,
                        limit,
                        seconds,
                        load,
                        shape,
                        max_cost: 1,
                        options,
                        network,
                    });
                }
            }
        }
    }
    cells
}
