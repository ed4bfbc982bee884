//! Simulated network: latency, loss, duplication, reordering and partitions. Times are in microseconds.

use hivemind_mesh::Lane;
use hivemind_mesh::testing::Random;

/// A simulated network.
///
/// ```
/// use hivemind_mesh_sim::Network;
///
/// let cut = Network { cut: Some(2), ..Network::bad() }; // The first two nodes are disconnected from the others.
/// assert!(cut.loss > 0 && Network::default().loss == 0);
/// ```
#[derive(Clone, Debug)]
pub struct Network {
    /// Mean latency of sync frames.
    pub sync_us: u64,
    /// Mean latency of asks and their answers.
    pub ask_us: u64,
    /// Lost frames, per mille.
    pub loss: u64,
    /// Duplicated frames, per mille.
    pub duplication: u64,
    /// Frames with ten times the latency, per mille, which reorders frames.
    pub stragglers: u64,
    /// Disconnects the nodes below this index from the others.
    pub cut: Option<usize>,
    /// The cut only affects frames from the upper to the lower side.
    pub one_way: bool,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            sync_us: 50_000,
            ask_us: 500,
            loss: 0,
            duplication: 0,
            stragglers: 0,
            cut: None,
            one_way: false,
        }
    }
}

impl Network {
    /// A network with loss, duplication and reordering.
    #[must_use]
    pub fn bad() -> Self {
        Self {
            sync_us: 30_000,
            ask_us: 1_000,
            loss: 100,
            duplication: 200,
            stragglers: 50,
            ..Self::default()
        }
    }

    /// The latencies of the arriving copies of a frame: none, one or two.
    pub(super) fn arrivals(&self, random: &mut Random, lane: Lane, from: usize, to: usize) -> Vec<u64> {
        let crosses = self.cut.is_some_and(|cut| (from < cut) != (to < cut) && !(self.one_way && from < cut));
        let copies = if random.chance(self.duplication) { 2 } else { 1 };
        let mean = match lane {
            Lane::Ask => self.ask_us,
            Lane::Sync => self.sync_us,
        };
        (0..copies)
            .filter_map(|_| {
                let lost = random.chance(self.loss) || crosses;
                let times = if random.chance(self.stragglers) { 10 } else { 1 };
                let delay = (mean / 2 + random.below(mean + 1)) * times;
                (!lost).then_some(delay.max(1))
            })
            .collect()
    }
}
