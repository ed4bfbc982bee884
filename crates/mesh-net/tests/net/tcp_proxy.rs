//! A TCP proxy that drops UDP, as many firewalls do.

use hivemind_mesh_net::MeshSettings;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;

/// A proxy to a node, which counts dropped QUIC dials.
#[derive(Clone)]
pub(crate) struct TcpProxy {
    pub(crate) address: SocketAddr,
    /// The node it forwards to; `None` while it is cut.
    target: watch::Sender<Option<SocketAddr>>,
    /// Connection ids of dropped QUIC dials.
    quic_dials: Arc<Mutex<BTreeSet<Vec<u8>>>>,
}

impl TcpProxy {
    pub(crate) async fn new() -> Self {
        let (listener, socket) = loop {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            if let Ok(socket) = UdpSocket::bind(listener.local_addr().unwrap()).await {
                break (listener, socket);
            }
        };
        let (target, _) = watch::channel(None);
        let proxy = Self { address: socket.local_addr().unwrap(), target, quic_dials: Arc::default() };
        tokio::spawn(proxy.clone().forward(listener));
        tokio::spawn(proxy.clone().drop_datagrams(socket));
        proxy
    }

    /// A proxy to a running node.
    pub(crate) async fn to(node: SocketAddr) -> Self {
        let proxy = Self::new().await;
        proxy.set_target(Some(node));
        proxy
    }

    /// Sets the node to forward to, and closes existing connections.
    pub(crate) fn set_target(&self, node: Option<SocketAddr>) {
        self.target.send_replace(node);
    }

    /// Makes a node advertise the address of this proxy.
    pub(crate) fn advertise_in(&self, settings: &mut MeshSettings) {
        (settings.advertise, settings.advertise_port) = (Some(self.address.ip()), Some(self.address.port()));
    }

    /// Number of QUIC dials.
    pub(crate) fn quic_dials(&self) -> usize {
        self.quic_dials.lock().unwrap().len()
    }

    async fn forward(self, listener: TcpListener) {
        while let Ok((mut here, _)) = listener.accept().await {
            let mut target = self.target.subscribe();
            tokio::spawn(async move {
                let Some(node) = *target.borrow_and_update() else { return };
                let Ok(mut there) = TcpStream::connect(node).await else { return };
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut here, &mut there) => {}
                    _ = target.changed() => {}
                }
            });
        }
    }

    async fn drop_datagrams(self, socket: UdpSocket) {
        let mut datagram = [0; 2_048];
        while let Ok((length, _)) = socket.recv_from(&mut datagram).await {
            // A long header: a byte, the version, then the length of the connection id, and the id.
            let Some([first, _, _, _, _, long, number @ ..]) = datagram.get(..length) else { continue };
            if first & 0x80 != 0 {
                let number = number.get(..usize::from(*long)).unwrap_or_default();
                self.quic_dials.lock().unwrap().insert(number.to_vec());
            }
        }
    }
}
