//! Conflicts between the ports of listeners.

use std::net::SocketAddr;

/// Whether two listeners cannot be open at the same time.
pub fn clash(a: SocketAddr, b: SocketAddr) -> bool {
    let same_host = a.ip() == b.ip() || a.ip().is_unspecified() || b.ip().is_unspecified();
    same_host && a.port() == b.port() && a.port() != 0
}
