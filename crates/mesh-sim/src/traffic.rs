//! Traffic sources: nodes, times and costs of requests.

use hivemind_mesh::testing::Random;

/// Distribution of requests over nodes and time.
///
/// ```
/// use hivemind_mesh_sim::{TrafficShape, grid};
///
/// for shape in TrafficShape::ALL {
///     assert!(grid().iter().any(|cell| cell.shape == shape));
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficShape {
    /// The same rate at all nodes.
    Uniform,
    /// Twice the rate at the first node as at the second, three times as at the third.
    Zipf,
    /// All requests at one node.
    Single,
    /// The same rate at all nodes, ten times as high in every fourth window.
    Spike,
    /// The same rate at all nodes, starting within the third window.
    Cold,
    /// A moving peak around one node.
    Moving,
    /// About half of the nodes at a time.
    OnOff,
}

impl TrafficShape {
    /// All shapes.
    pub const ALL: [Self; 7] =
        [Self::Uniform, Self::Zipf, Self::Single, Self::Spike, Self::Cold, Self::Moving, Self::OnOff];
}

/// Source of all requests of one counter.
#[derive(Clone, Debug)]
pub(super) struct TrafficSource {
    pub(super) shape: TrafficShape,
    /// Requests per second over all nodes.
    pub(super) rate: f64,
    pub(super) nodes: usize,
    pub(super) window_us: u64,
    pub(super) max_cost: u64,
    on: Vec<bool>,
    weights: Vec<f64>,
    weighed: u64,
    random: Random,
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "random numbers"
)]
impl TrafficSource {
    pub(super) fn new(
        shape: TrafficShape,
        rate: f64,
        nodes: usize,
        window_us: u64,
        max_cost: u64,
        random: Random,
    ) -> Self {
        let on = (0..nodes).map(|node| node % 2 == 0).collect();
        Self { shape, rate, nodes, window_us, max_cost, on, weights: vec![], weighed: u64::MAX, random }
    }

    fn rate_at(&self, at_us: u64) -> f64 {
        match self.shape {
            TrafficShape::Spike if (at_us / self.window_us) % 4 == 3 => 10.0 * self.rate,
            TrafficShape::Spike => 0.3 * self.rate,
            TrafficShape::Cold if at_us < self.cold_start() => 0.0,
            _ => self.rate,
        }
    }

    fn cold_start(&self) -> u64 {
        2 * self.window_us + self.window_us / 10
    }

    /// The time of the request after one at `at_us`.
    pub(super) fn next(&mut self, at_us: u64) -> u64 {
        if self.shape == TrafficShape::Cold && at_us < self.cold_start() {
            return self.cold_start();
        }
        let gap = -(1.0 - self.random.unit()).ln() / self.rate_at(at_us).max(1e-9) * 1e6;
        let next = at_us + (gap as u64).max(1);
        // The rate changes with the window, so the next time is drawn again there.
        let edge = (at_us / self.window_us + 1) * self.window_us;
        if self.shape == TrafficShape::Spike && next > edge { edge } else { next }
    }

    /// Node and cost of a request at this time.
    pub(super) fn request(&mut self, at_us: u64) -> (usize, u64) {
        let step = match self.shape {
            TrafficShape::Moving => (self.window_us / 20).max(1),
            TrafficShape::OnOff if self.window_us <= 2_000_000 => self.window_us,
            TrafficShape::OnOff => self.window_us / 4,
            _ => u64::MAX,
        };
        if self.weighed != at_us / step {
            self.weighed = at_us / step;
            self.weigh(at_us);
        }
        let cost = if self.max_cost > 1 { 1 + self.random.below(self.max_cost) } else { 1 };
        let mut point = self.random.unit() * self.weights.iter().sum::<f64>();
        for (node, weight) in self.weights.iter().enumerate() {
            point -= weight;
            if point < 0.0 {
                return (node, cost);
            }
        }
        (0, cost)
    }

    fn weigh(&mut self, at_us: u64) {
        let nodes = self.nodes as f64;
        if self.shape == TrafficShape::OnOff {
            for index in 0..self.on.len() {
                if self.random.chance(500)
                    && let Some(on) = self.on.get_mut(index)
                {
                    *on = !*on;
                }
            }
            if !self.on.contains(&true)
                && let Some(first) = self.on.first_mut()
            {
                *first = true;
            }
        }
        let period = if self.window_us <= 2_000_000 { 2 * self.window_us } else { self.window_us / 2 };
        let center = (at_us as f64 / period as f64) % nodes;
        let weight = |node: usize| match self.shape {
            TrafficShape::Zipf => 1.0 / (node as f64 + 1.0),
            TrafficShape::Single => f64::from(u8::from(node == 0)),
            TrafficShape::OnOff => f64::from(u8::from(self.on.get(node).copied().unwrap_or(false))),
            TrafficShape::Moving => {
                let off = (node as f64 - center).abs();
                let off = off.min(nodes - off);
                (-off * off / 2.0).exp() + 0.001
            }
            _ => 1.0,
        };
        self.weights = (0..self.nodes).map(weight).collect();
    }
}
