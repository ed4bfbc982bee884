//! The first message of a connection, in both directions: who speaks, of which mesh, in which
//! run, and where others can reach it. Nothing else is heard before it, and nothing after it
//! from a peer whose certificate is for another name.

use hivemind_mesh::NodeId;
use hivemind_mesh::wire::{Reader, Unreadable, Writer};
use hivemind_mesh::{Generation, Member};
use std::net::{IpAddr, SocketAddr};

/// The version of what is said after it; others are not understood.
const VERSION: u64 = 1;
/// The most bytes of a name, of a node or of a mesh.
pub(super) const LONGEST_NAME: usize = 128;
/// The most bytes of a hello.
pub(super) const LONGEST: usize = 512;

/// Who speaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) cluster: String,
    pub(super) member: Member,
    /// The address at which others can call it, if it knows that; otherwise the one that it calls from.
    pub(super) address: Option<IpAddr>,
    pub(super) port: u16,
    /// Whether this connection takes the place of any other of the same run.
    pub(super) renews: bool,
}

impl Hello {
    /// Where its speaker can be called, who called from `remote`.
    pub(super) fn reachable_at(&self, remote: SocketAddr) -> SocketAddr {
        // A socket for both families shows addresses of the older one in the dress of the newer.
        SocketAddr::new(self.address.unwrap_or(remote.ip().to_canonical()), self.port)
    }

    pub(super) fn write(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.number(VERSION);
        writer.text(&self.cluster);
        writer.text(self.member.id.as_str());
        writer.number(self.member.generation.0);
        writer.text(&self.address.map(|address| address.to_string()).unwrap_or_default());
        writer.number(self.port.into());
        writer.number(self.renews.into());
        writer.0
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Self, Unreadable> {
        let mut reader = Reader(bytes);
        if reader.number()? != VERSION {
            return Err(Unreadable);
        }
        let cluster = reader.text(LONGEST_NAME)?.to_owned();
        let id = reader.text(LONGEST_NAME)?;
        if id.is_empty() {
            return Err(Unreadable);
        }
        let generation = Generation(reader.number()?);
        let address = reader.text(64)?;
        let address = if address.is_empty() { None } else { Some(address.parse().map_err(|_| Unreadable)?) };
        let port = u16::try_from(reader.number()?).map_err(|_| Unreadable)?;
        let renews = reader.number()? == 1;
        // What a later version adds at the end is passed over.
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
        fn a_hello_is_read_as_it_was_written(
            cluster in ".{0,30}",
            id in "[a-z0-9.-]{1,60}",
            generation in any::<u64>(),
            address in prop::option::of(any::<IpAddr>()),
            port in any::<u16>(),
            renews in any::<bool>(),
        ) {
            let hello = Hello { cluster, member: Member::new(NodeId::new(id), generation), address, port, renews };
            let bytes = hello.write();
            prop_assert!(bytes.len() <= LONGEST);
            prop_assert_eq!(Hello::read(&bytes), Ok(hello));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..LONGEST)) {
            let _ = Hello::read(&bytes);
        }
    }
}
