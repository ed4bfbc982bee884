//! Simulator of the mesh: many nodes in one process with the real state machine and codec, a network that loses,
//! delays, duplicates and reorders frames, clock offsets, and a count of all admissions. A seed determines a run bit
//! for bit. Terms: `docs/GLOSSARY.md`.
//!
//! ```
//! use hivemind_mesh_sim::scenarios;
//! use hivemind_core::{Limit, Period};
//!
//! let quiet = &scenarios()[0]; // Six seconds without events.
//! let limit = Limit::fixed_window(5, Period::SECOND);
//! let result = quiet.play(1, limit, 1.5);
//! assert_eq!((result.over, result), (0, quiet.play(1, limit, 1.5))); // The same result.
//! ```

pub mod baselines;
mod digest;
mod frame_mutator;
mod grid;
mod handoff_scenario;
mod hostile_frames;
mod hostile_map_messages;
mod mixed_batches;
mod model;
mod network;
pub mod plot;
mod random_scenario;
mod reload_scenario;
mod scenario;
mod tally;
mod traffic;
mod world;

pub use digest::take_digest;
pub use frame_mutator::FrameMutator;
pub use grid::{GridCell, GridResult, grid};
pub use handoff_scenario::{HandoffResult, HandoffScenario};
pub use hivemind_mesh::testing::{Random, mesh_nodes};
pub use hostile_frames::hostile_frames;
pub use hostile_map_messages::hostile_map_messages;
pub use mixed_batches::{MixedResult, run_mixed_batches};
pub use model::{MembershipChange, ModelCheck, SearchResult};
pub use network::Network;
pub use random_scenario::RandomScenario;
pub use reload_scenario::{ReloadResult, ReloadScenario};
pub use scenario::{Scenario, ScenarioResult, limits, scenarios};
pub use tally::AdmissionTally;
pub use traffic::TrafficShape;
pub use world::{World, grid_options};
