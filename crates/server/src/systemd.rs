//! What systemd and this process tell each other: which sockets are open already, and how it is. Each is a few
//! variables of the environment and a few lines over a socket; where they are not there, nobody listens.

mod notice;
mod sockets;

pub(crate) use notice::Supervisor;
pub(crate) use sockets::sockets;
