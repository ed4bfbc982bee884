//! Peer address: the other end of the connection, from the extensions of the request.

use http::Extensions;
use std::net::{IpAddr, SocketAddr};

/// The peer's address. Servers other than axum and tonic insert it into each request's extensions; the
/// extensions of those two are read with the features `axum` and `tonic`.
///
/// ```
/// use hivemind_tower::{Limits, PartialLimit, Peer, RateLimitLayer};
/// use http::{Request, Response};
/// use tower::{Layer, ServiceExt, service_fn};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let layer = RateLimitLayer::new(Limits::new().platform(PartialLimit::new().requests(1).burst(1)))?;
/// let hello = layer.layer(service_fn(|_| async { Ok::<_, std::convert::Infallible>(Response::new("hello")) }));
/// for (peer, status) in [("192.0.2.1:4711", 200), ("192.0.2.2:4711", 200), ("192.0.2.1:4712", 429)] {
///     let mut request = Request::new(());
///     request.extensions_mut().insert(Peer(peer.parse()?));
///     assert_eq!(runtime.block_on(hello.clone().oneshot(request))?.status(), status, "{peer}");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub SocketAddr);

/// The peer's address from any known extension.
pub(crate) fn peer_address(extensions: &Extensions) -> Option<IpAddr> {
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
