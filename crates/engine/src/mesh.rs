//! Mesh integration of the binary: node names, certificates, and the running node. The mesh itself is in
//! `hivemind-mesh` and `hivemind-mesh-net`.

pub mod certs;
mod due;
mod fingerprint;
mod matters;
pub mod name;
mod own_name;
mod peers;
mod running;
mod section;
mod settings;
mod traced;

pub use peers::shown_holding;
pub use running::RunningMesh;
pub use section::{Listeners, MeshFiles, MeshSection, read};
