//! Where requests come from, and when.

use hivemind_mesh::testing::Random;

/// How requests spread over nodes and time.
///
/// ```
/// use hivemind_mesh_sim::{Shape, grid};
///
/// for shape in Shape::ALL {
///     assert!(grid().iter().any(|cell| cell.shape == shape));
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Every node as much as every other.
    Uniform,
    /// The first node twice as much as the second, three times as much as the third.
    Zipf,
    /// All at one node.
    Single,
    /// Evenly, and in every fourth window ten times as much.
    Spike,
    /// Evenly, beginning in the middle of a window after two of silence.
    Cold,
    /// At a node and its neighbours, moving round.
    Moving,
    /// At about half of the nodes, which change.
    OnOff,
}

impl Shape {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Uniform, Self::Zipf, Self::Single, Self::Spike, Self::Cold, Self::Moving, Self::OnOff];
}

/// The source of all requests on one counter.
#[derive(Clone, Debug)]
pub(super) struct Traffic {
    pub(super) shape: Shape,
    /// Requests in a second, over all nodes.
    pub(super) rate: f64,
    pub(super) nodes: usize,
    pub(super) window_us: u64,
    pub(super) most_cost: u64,
    on: Vec<bool>,
    weights: Vec<f64>,
    weighed: u64,
    random: Random,
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is chance"
)]
impl Traffic {
    pub(super) fn new(
        shape: Shape,
        rate: f64,
        nodes: usize,
        window_us: u64,
        most_cost: u64,
        random: Random,
    ) -> Self {
        let on = (0..nodes).map(|node| node % 2 == 0).collect();
        Self { shape, rate, nodes, window_us, most_cost, on, weights: vec![], weighed: u64::MAX, random }
    }

    fn rate_at(&self, at_us: u64) -> f64 {
        match self.shape {
            Shape::Spike if (at_us / self.window_us) % 4 == 3 => 10.0 * self.rate,
            Shape::Spike => 0.3 * self.rate,
            Shape::Cold if at_us < self.cold_start() => 0.0,
            _ => self.rate,
        }
    }

    fn cold_start(&self) -> u64 {
        2 * self.window_us + self.window_us / 10
    }

    /// The time of the request after one at `at_us`.
    pub(super) fn next(&mut self, at_us: u64) -> u64 {
        if self.shape == Shape::Cold && at_us < self.cold_start() {
            return self.cold_start();
        }
        let gap = -(1.0 - self.random.unit()).ln() / self.rate_at(at_us).max(1e-9) * 1e6;
        let next = at_us + (gap as u64).max(1);
        // The rate changes with the window: it is drawn anew there.
        let edge = (at_us / self.window_us + 1) * self.window_us;
        if self.shape == Shape::Spike && next > edge { edge } else { next }
    }

    /// The node that a request at this time comes to, and its cost.
    pub(super) fn request(&mut self, at_us: u64) -> (usize, u64) {
        let step = match self.shape {
            Shape::Moving => (self.window_us / 20).max(1),
            Shape::OnOff if self.window_us <= 2_000_000 => self.window_us,
            Shape::OnOff => self.window_us / 4,
            _ => u64::MAX,
        };
        if self.weighed != at_us / step {
            self.weighed = at_us / step;
            self.weigh(at_us);
        }
        let cost = if self.most_cost > 1 { 1 + self.random.below(self.most_cost) } else { 1 };
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
        if self.shape == Shape::OnOff {
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
        let centre = (at_us as f64 / period as f64) % nodes;
        let weight = |node: usize| match self.shape {
            Shape::Zipf => 1.0 / (node as f64 + 1.0),
            Shape::Single => f64::from(u8::from(node == 0)),
            Shape::OnOff => f64::from(u8::from(self.on.get(node).copied().unwrap_or(false))),
            Shape::Moving => {
                let off = (node as f64 - centre).abs();
                let off = off.min(nodes - off);
                (-off * off / 2.0).exp() + 0.001
            }
            _ => 1.0,
        };
        self.weights = (0..self.nodes).map(weight).collect();
    }
}
