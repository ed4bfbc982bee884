//! An upstream driven by hand: the test accepts the gateway's connections and writes every byte itself.

use super::wire::Wire;
use hivemind_testkit::within;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};

/// The shortest response that leaves the connection open.
pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

pub(crate) struct Raw {
    listener: TcpListener,
    pub(crate) address: SocketAddr,
}

impl Raw {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        Self { listener, address }
    }

    /// With small receive buffers on its connections.
    pub(crate) fn narrow() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(64 << 10).unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(16).unwrap();
        let address = listener.local_addr().unwrap();
        Self { listener, address }
    }

    /// An address without a listener.
    pub(crate) async fn unused_address() -> SocketAddr {
        Self::start().await.address
    }

    pub(crate) async fn accept(&self) -> Wire {
        let (socket, _) = within("the gateway to connect", self.listener.accept()).await.unwrap();
        socket.set_nodelay(true).unwrap();
        Wire::over(socket)
    }

    /// Whether nothing connects within a time.
    pub(crate) async fn is_quiet(&self, time: Duration) -> bool {
        tokio::time::timeout(time, self.listener.accept()).await.is_err()
    }
}
