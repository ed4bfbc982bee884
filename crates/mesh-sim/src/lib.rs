//! A mesh of many nodes in one process: the real state machine and the real codec, a network
//! that loses, delays, repeats and reorders, clocks that are off, and a count of everything
//! admitted. A seed decides a run, bit for bit.
//!
//! ```
//! use hivemind_mesh_sim::scenarios;
//! use hivemind_core::{Limit, Period};
//!
//! let quiet = &scenarios()[0]; // Nothing happens for six seconds.
//! let limit = Limit::fixed_window(5, Period::SECOND);
//! let played = quiet.play(1, limit, 1.5);
//! assert_eq!((played.over, played), (0, quiet.play(1, limit, 1.5))); // The same again.
//! ```

mod cell;
mod digest;
mod draw;
mod forger;
mod hostile_frame;
mod hostile_notes;
mod mixed;
mod model;
mod network;
pub mod plot;
mod reload;
pub mod rivals;
mod rollout;
mod scenario;
mod tally;
mod traffic;
mod world;

pub use cell::{Cell, Outcome, grid};
pub use digest::take_digest;
pub use draw::Draw;
pub use forger::Forger;
pub use hivemind_mesh::testing::{Random, seated};
pub use hostile_frame::hostile_frames;
pub use hostile_notes::hostile_notes;
pub use mixed::{Mixed, mixed};
pub use model::{Change, Model, Searched};
pub use network::Network;
pub use reload::{Reload, Reloaded};
pub use rollout::{RolledOut, Rollout};
pub use scenario::{Played, Scenario, limits, scenarios};
pub use tally::Tally;
pub use traffic::Shape;
pub use world::{World, options_for_a_grid};
