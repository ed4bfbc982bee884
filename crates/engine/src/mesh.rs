//! Mesh integration of the binary: node names, certificates, and the running node. The mesh itself is in
//! `hivemind-mesh` and `hivemind-mesh-net`.

pub mod certs;
mod expiry_warning;
mod fingerprint;
pub mod name;
mod own_name;
mod peers;
mod problems;
mod round_spans;
mod running_mesh;
mod section;
mod settings;

pub use peers::shown_holding;
pub use running_mesh::RunningMesh;
pub use section::{Listeners, MeshFiles, MeshSection, read};
