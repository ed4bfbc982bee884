//! The mesh as this binary runs it: how nodes are named, the certificates that vouch for their names, and a
//! node that runs. What is shared, and how, is `hivemind-mesh`'s.

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
