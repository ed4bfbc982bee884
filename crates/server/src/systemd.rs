//! systemd integration: socket activation and status notifications. Both use a few environment variables and lines on
//! a socket, and do nothing without systemd.

mod sockets;
mod supervisor;

pub(crate) use sockets::sockets;
pub(crate) use supervisor::Supervisor;
