//! Who is at the other end of the connection, as the server in front of the layer
//! noted it in the request's extensions.

use http::Extensions;
use std::net::{IpAddr, SocketAddr};

/// The peer's address, for servers that have no extension of their own: insert it into each
/// request's extensions. Those of axum and tonic are read with the features of their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// The peer's address, wherever it is.
pub(crate) fn peer_of(extensions: &Extensions) -> Option<IpAddr> {
    let ours = extensions.get::<Peer>().map(|peer| peer.0);
    #[cfg(feature = "axum")]
    let ours = ours.or_else(|| {
        let info = extensions.get::<axum::extract::ConnectInfo<SocketAddr>>();
        info.map(|info| info.0)
    });
    #[cfg(feature = "tonic")]
    let ours = ours.or_else(|| {
        let info = extensions.get::<tonic::transport::server::TcpConnectInfo>();
        info.and_then(tonic::transport::server::TcpConnectInfo::remote_addr)
    });
    ours.map(|peer| peer.ip())
}
