//! Hello, the first message in each direction: protocol version, mesh, name, generation and address of a node. A node
//! ignores other messages before it, and closes the connection if the certificate is for a different name.

use hivemind_mesh::NodeId;
use hivemind_mesh::frame::wire::{Unreadable, WireReader, WireWriter};
use hivemind_mesh::{Generation, Member};
use std::net::{IpAddr, SocketAddr};

/// Version of the protocol; others are rejected.
const VERSION: u64 = 1;
/// Maximum length of the name of a node or mesh, in bytes.
pub(crate) const MAX_NAME_LEN: usize = 128;
/// Maximum length of a hello, in bytes.
pub(crate) const MAX_LEN: usize = 512;

/// Name, generation and address of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) cluster: String,
    pub(crate) member: Member,
    /// The advertised address, if the node knows one; otherwise peers use the source address of the connection.
    pub(crate) address: Option<IpAddr>,
    pub(crate) port: u16,
    /// Whether this connection replaces any other of the same generation.
    pub(crate) renews: bool,
}

impl Hello {
    /// The address to dial this node at, which is connected from `remote`.
    pub(crate) fn address_from(&self, remote: SocketAddr) -> SocketAddr {
        // A dual-stack socket shows IPv4 addresses mapped to IPv6.
        SocketAddr::new(self.address.unwrap_or(remote.ip().to_canonical()), self.port)
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let mut writer = WireWriter::default();
        writer.number(VERSION);
        writer.text(&self.cluster);
        writer.text(self.member.id.as_str());
        writer.number(self.member.generation.0);
        writer.text(&self.address.map(|address| address.to_string()).unwrap_or_default());
        writer.number(self.port.into());
        writer.number(self.renews.into());
        writer.0
    }

    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Unreadable> {
        let mut reader = WireReader(bytes);
        if reader.number()? != VERSION {
            return Err(Unreadable);
        }
        let cluster = reader.text(MAX_NAME_LEN)?.to_owned();
        let id = reader.text(MAX_NAME_LEN)?;
        if id.is_empty() {
            return Err(Unreadable);
        }
        let generation = Generation(reader.number()?);
        let address = reader.text(64)?;
        let address = if address.is_empty() { None } else { Some(address.parse().map_err(|_| Unreadable)?) };
        let port = u16::try_from(reader.number()?).map_err(|_| Unreadable)?;
        let renews = reader.number()? == 1;
        // Fields that a later version appends are ignored.
        let member = Member { id: NodeId::new(id), generation };
        Ok(Self { cluster, member, address, port, renews })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn hello_survives_a_round_trip(
            cluster in ".{0,30}",
            id in "[a-z0-9.-]{1,60}",
            generation in any::<u64>(),
            address in prop::option::of(any::<IpAddr>()),
            port in any::<u16>(),
            renews in any::<bool>(),
        ) {
            let hello = Hello { cluster, member: Member::new(NodeId::new(id), generation), address, port, renews };
            let bytes = hello.write();
            prop_assert!(bytes.len() <= MAX_LEN);
            prop_assert_eq!(Hello::read(&bytes), Ok(hello));
        }

        #[test]
        fn arbitrary_bytes_cause_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..MAX_LEN)) {
            let _ = Hello::read(&bytes);
        }
    }
}
