//! Mesh integration of the binary: node names, certificates, and the running node. The mesh itself is in
//! `hivemind-mesh` and `hivemind-mesh-net`.

pub(crate) mod certs;
mod due;
mod fingerprint;
mod matters;
pub(crate) mod name;
mod own_name;
mod peers;
mod running;
mod settings;
mod traced;

pub(crate) use peers::shown_holding;
pub(crate) use running::RunningMesh;
