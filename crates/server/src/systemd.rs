//! systemd integration: socket activation and status notifications. Both use a few environment variables and lines on
//! a socket, and do nothing without systemd.

mod notice;
mod sockets;

pub(crate) use notice::Supervisor;
pub(crate) use sockets::sockets;
