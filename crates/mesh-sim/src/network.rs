//! What the network does to frames. Times are in microseconds.

use hivemind_mesh::Lane;
use hivemind_mesh::testing::Random;

/// How frames fare on their way.
///
/// ```
/// use hivemind_mesh_sim::Network;
///
/// let cut = Network { cut: Some(2), ..Network::bad() }; // The first two nodes hear nobody else.
/// assert!(cut.loss > 0 && Network::default().loss == 0);
/// ```
#[derive(Clone, Debug)]
pub struct Network {
    /// Frames that have time take so long on average.
    pub sync_us: u64,
    /// Frames that somebody waits for take so long on average.
    pub ask_us: u64,
    /// Lost, of a thousand.
    pub loss: u64,
    /// Coming twice, of a thousand.
    pub duplication: u64,
    /// Ten times as late as others, of a thousand: this is what reorders.
    pub stragglers: u64,
    /// Nodes below this index and the others do not hear each other.
    pub cut: Option<usize>,
    /// The cut lets through what goes from the lower side to the upper one.
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
    /// A network that does all that networks do.
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

    /// The delays after which a frame arrives: none, one or two.
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
