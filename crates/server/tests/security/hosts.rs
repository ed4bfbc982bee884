//! Which addresses a service is reached at.

use crate::RULES;
use crate::support::Setup;
use std::net::{IpAddr, SocketAddr};
use tokio::net::{TcpStream, UdpSocket};

/// An address of this machine that is not loopback; none where it has no network.
async fn outside() -> Option<IpAddr> {
    // Nothing is sent: the kernel only chooses where it would be sent from.
    let socket = UdpSocket::bind(("0.0.0.0", 0)).await.ok()?;
    socket.connect((std::net::Ipv4Addr::new(192, 0, 2, 1), 9)).await.ok()?;
    socket.local_addr().ok().map(|at| at.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

// Seen failing on: a default of 0.0.0.0.
#[tokio::test]
async fn nothing_listens_on_all_interfaces_unless_told_and_each_host_opens_its_own_port() {
    for opened in [None, Some("grpc_host"), Some("admin_host"), Some("metrics_host")] {
        let setup = Setup::rules(RULES);
        let setup = match opened {
            None => setup,
            Some(host) => setup.with(&format!("server.{host}"), "0.0.0.0"),
        };
        let server = setup.start().await;
        for (host, at) in
            [("grpc_host", server.grpc), ("admin_host", server.admin), ("metrics_host", server.metrics)]
        {
            let is_open = opened == Some(host);
            assert_eq!((at.ip().is_unspecified(), at.ip().is_loopback()), (is_open, !is_open), "{host}");
            let Some(outside) = outside().await else { continue };
            let reached = TcpStream::connect(SocketAddr::new(outside, at.port())).await;
            assert_eq!(reached.is_ok(), is_open, "{host} of {opened:?}");
        }
    }
}
