//! Named runs in which something happens to the mesh.

use super::world::World;

/// A named run.
pub struct Scenario {
    /// What happens.
    pub name: &'static str,
    /// Makes it happen.
    pub play: fn(&mut World),
}

/// All of them.
#[must_use]
pub fn scenarios() -> Vec<Scenario> {
    Vec::new()
}
