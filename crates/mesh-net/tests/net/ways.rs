//! Ways to a node that carry TCP alone, as many firewalls do.

use hivemind_mesh_net::MeshSettings;
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::watch;

/// A way to a node.
#[derive(Clone)]
pub(crate) struct TcpOnly {
    pub(crate) address: SocketAddr,
    /// Where it leads; nowhere while it is cut.
    leads_to: watch::Sender<Option<SocketAddr>>,
    /// The calls by datagrams that came this far, by the number that each has.
    calls: Arc<Mutex<BTreeSet<Vec<u8>>>>,
}

impl TcpOnly {
    pub(crate) async fn new() -> Self {
        let (listener, socket) = loop {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            if let Ok(socket) = UdpSocket::bind(listener.local_addr().unwrap()).await {
                break (listener, socket);
            }
        };
        let (leads_to, _) = watch::channel(None);
        let way = Self { address: socket.local_addr().unwrap(), leads_to, calls: Arc::default() };
        tokio::spawn(way.clone().carry(listener));
        tokio::spawn(way.clone().swallow(socket));
        way
    }

    /// A way to a node that is there.
    pub(crate) async fn to(node: SocketAddr) -> Self {
        let way = Self::new().await;
        way.lead_to(Some(node));
        way
    }

    /// From now on it leads there, or nowhere: what it carries ends.
    pub(crate) fn lead_to(&self, node: Option<SocketAddr>) {
        self.leads_to.send_replace(node);
    }

    /// Makes this the only way to a node.
    pub(crate) fn is_the_way_to(&self, settings: &mut MeshSettings) {
        (settings.advertise, settings.advertise_port) = (Some(self.address.ip()), Some(self.address.port()));
    }

    /// How often datagrams were tried.
    pub(crate) fn calls(&self) -> usize {
        self.calls.lock().unwrap().len()
    }

    async fn carry(self, listener: TcpListener) {
        while let Ok((mut here, _)) = listener.accept().await {
            let mut leads_to = self.leads_to.subscribe();
            tokio::spawn(async move {
                let Some(node) = *leads_to.borrow_and_update() else { return };
                let Ok(mut there) = TcpStream::connect(node).await else { return };
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut here, &mut there) => {}
                    _ = leads_to.changed() => {}
                }
            });
        }
    }

    async fn swallow(self, socket: UdpSocket) {
        let mut datagram = [0; 2_048];
        while let Ok((length, _)) = socket.recv_from(&mut datagram).await {
            // The first packet of a call: a byte, the version, then the length of the call's number, and that.
            let Some([first, _, _, _, _, long, number @ ..]) = datagram.get(..length) else { continue };
            if first & 0x80 != 0 {
                let number = number.get(..usize::from(*long)).unwrap_or_default();
                self.calls.lock().unwrap().insert(number.to_vec());
            }
        }
    }
}
