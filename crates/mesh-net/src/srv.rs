//! Lookup of SRV records, which the system's resolver does not support: queries the name servers of `resolv.conf` and
//! applies its search list, because a headless Kubernetes service is mostly configured by its short name.

use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};
use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

/// Timeout of a query to one server.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum length of a response over UDP, in bytes.
const MAX_DATAGRAM: usize = 4_096;
/// Maximum number of records of a response that are used.
const MAX_RECORDS: usize = 512;

/// Name servers and search list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resolver {
    servers: Vec<SocketAddr>,
    search: Vec<String>,
    ndots: usize,
}

/// Response: hosts with their ports, and the addresses of its additional section.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SrvAnswer {
    pub(super) hosts: BTreeSet<(String, u16)>,
    pub(super) addresses: BTreeSet<SocketAddr>,
}

impl Resolver {
    /// Uses these name servers, or those of the system if there are none.
    pub(super) fn new(servers: &[SocketAddr]) -> Self {
        if !servers.is_empty() {
            return Self { servers: servers.to_vec(), search: Vec::new(), ndots: 1 };
        }
        Self::read(&std::fs::read("/etc/resolv.conf").unwrap_or_default())
    }

    fn read(file: &[u8]) -> Self {
        let config = resolv_conf::Config::parse(file).unwrap_or_default();
        let search = config.get_last_search_or_domain().map(ToOwned::to_owned).collect();
        let port = |server: &resolv_conf::ScopedIp| SocketAddr::new(IpAddr::from(server), 53);
        let servers = config.nameservers.iter().map(port).collect();
        Self { servers, search, ndots: usize::try_from(config.ndots).unwrap_or(1) }
    }

    /// The fully qualified names to try, in the order of `resolv.conf`.
    fn candidates(&self, name: &str) -> Vec<String> {
        if let Some(whole) = name.strip_suffix('.') {
            return vec![whole.to_owned()];
        }
        let mut names: Vec<String> =
            self.search.iter().map(|domain| format!("{name}.{}", domain.trim_matches('.'))).collect();
        let is_long = name.matches('.').count() >= self.ndots;
        names.insert(if is_long { 0 } else { names.len() }, name.to_owned());
        names
    }

    /// Looks up the hosts of a service.
    ///
    /// # Errors
    /// If no server answers, or if none of the names exists.
    pub(super) async fn look_up(&self, name: &str) -> io::Result<SrvAnswer> {
        let mut error = io::Error::new(io::ErrorKind::NotFound, "no name server is configured");
        for name in self.candidates(name) {
            for server in &self.servers {
                match timeout(TIMEOUT, query(*server, &name)).await {
                    Ok(Ok(Some(service))) => return Ok(service),
                    Ok(Ok(None)) => {
                        error =
                            io::Error::new(io::ErrorKind::NotFound, format!("`{name}` has no SRV records"));
                        break;
                    }
                    Ok(Err(cause)) => error = cause,
                    Err(_) => error = io::ErrorKind::TimedOut.into(),
                }
            }
        }
        Err(error)
    }
}

/// Queries one server for one name. Returns `None` if the name does not exist.
async fn query(server: SocketAddr, name: &str) -> io::Result<Option<SrvAnswer>> {
    let id = random_id();
    let question = question(id, name)?;
    let here: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind(SocketAddr::new(here, 0)).await?;
    // The socket drops datagrams of other senders.
    socket.connect(server).await?;
    socket.send(&question).await?;
    let mut answer = vec![0; MAX_DATAGRAM];
    let answer = loop {
        let length = socket.recv(&mut answer).await?;
        let answer = answer.get(..length).unwrap_or_default();
        if answer.starts_with(&id.to_be_bytes()) {
            break answer;
        }
    };
    let packet = parse(answer)?;
    if !packet.has_flags(PacketFlag::TRUNCATION) {
        return service(&packet, name);
    }
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(question.len()).map_err(io::Error::other)?;
    stream.write_all(&length.to_be_bytes()).await?;
    stream.write_all(&question).await?;
    let mut answer = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut answer).await?;
    service(&parse(&answer)?, name)
}

fn question(id: u16, name: &str) -> io::Result<Vec<u8>> {
    let name = Name::new(name).map_err(|_| invalid("not a valid DNS name"))?;
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    packet.questions.push(Question::new(name, QTYPE::TYPE(TYPE::SRV), QCLASS::CLASS(CLASS::IN), false));
    packet.build_bytes_vec().map_err(|_| invalid("not a valid DNS name"))
}

fn parse(answer: &[u8]) -> io::Result<Packet<'_>> {
    let packet =
        Packet::parse(answer).map_err(|_| invalid("the response of the name server cannot be decoded"))?;
    if packet.has_flags(PacketFlag::RESPONSE) {
        Ok(packet)
    } else {
        Err(invalid("the name server sent a query instead of a response"))
    }
}

fn service(packet: &Packet<'_>, name: &str) -> io::Result<Option<SrvAnswer>> {
    match packet.rcode() {
        RCODE::NoError => {}
        RCODE::NameError => return Ok(None),
        code => return Err(invalid(&format!("the name server returned `{code:?}` for `{name}`"))),
    }
    let mut found = SrvAnswer::default();
    for record in packet.answers.iter().take(MAX_RECORDS) {
        if let RData::SRV(srv) = &record.rdata {
            found.hosts.insert((srv.target.to_string().to_lowercase(), srv.port));
        }
    }
    for record in packet.additional_records.iter().take(2 * MAX_RECORDS) {
        let address: IpAddr = match &record.rdata {
            RData::A(a) => Ipv4Addr::from(a.address).into(),
            RData::AAAA(aaaa) => Ipv6Addr::from(aaaa.address).into(),
            _ => continue,
        };
        let host = record.name.to_string().to_lowercase();
        let ports = found.hosts.iter().filter(|(known, _)| *known == host);
        found.addresses.extend(ports.map(|(_, port)| SocketAddr::new(address, *port)));
    }
    let SrvAnswer { hosts, addresses } = &mut found;
    // Hosts with an address need no further lookup.
    let named: BTreeSet<String> =
        packet.additional_records.iter().map(|record| record.name.to_string().to_lowercase()).collect();
    if !addresses.is_empty() {
        hosts.retain(|(host, _)| !named.contains(host));
    }
    Ok((!hosts.is_empty() || !addresses.is_empty()).then_some(found))
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// An unpredictable query id: the hash keys come from the system's random numbers.
fn random_id() -> u16 {
    let [.., high, low] = RandomState::new().build_hasher().finish().to_be_bytes();
    u16::from_be_bytes([high, low])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Fails when the search list comes first for long names, or when a final dot is kept.
    #[test]
    fn short_name_is_tried_in_the_search_list_first() {
        let file =
            b"search mesh.svc.cluster.local svc.cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n";
        let resolver = Resolver::read(file);
        assert_eq!(resolver.servers, [SocketAddr::from(([10, 96, 0, 10], 53))]);
        let expected = ["_m._udp.h.mesh.svc.cluster.local", "_m._udp.h.svc.cluster.local", "_m._udp.h"];
        assert_eq!(resolver.candidates("_m._udp.h"), expected);
        assert_eq!(resolver.candidates("_m._udp.h.a.b.c")[0], "_m._udp.h.a.b.c");
        assert_eq!(resolver.candidates("_m._udp.h."), ["_m._udp.h"]);
    }

    proptest! {
        #[test]
        fn arbitrary_response_causes_no_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(packet) = parse(&bytes) {
                let _ = service(&packet, "a");
            }
        }
    }
}
