//! Listening addresses: defaults, and each host setting.

use crate::RULES;
use hivemind_testkit::{Server, Setup, hivemind};
use std::net::{IpAddr, SocketAddr};
use tokio::net::{TcpStream, UdpSocket};

/// An address of this machine that is not loopback; none without a network.
async fn outside() -> Option<IpAddr> {
    // Nothing is sent: the kernel only selects the source address.
    let socket = UdpSocket::bind(("0.0.0.0", 0)).await.ok()?;
    socket.connect((std::net::Ipv4Addr::new(192, 0, 2, 1), 9)).await.ok()?;
    socket.local_addr().ok().map(|at| at.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

// Seen failing on: a default of 0.0.0.0.
#[tokio::test]
async fn ports_listen_on_loopback_unless_their_host_is_set() {
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

/// The sockets that a process listens on, from /proc: protocol, address and port. Datagram sockets have no
/// listening state; unconnected ones count.
fn listeners(process: u32) -> Vec<(&'static str, IpAddr, u16)> {
    let of_process = format!("/proc/{process}");
    let inode = |link: std::path::PathBuf| {
        let text = link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_owned();
        text.parse::<u64>().ok()
    };
    let files = std::fs::read_dir(format!("{of_process}/fd")).unwrap().flatten();
    let ours: Vec<u64> = files.filter_map(|file| inode(std::fs::read_link(file.path()).ok()?)).collect();
    let mut all = Vec::new();
    for (protocol, listening) in [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")] {
        let table = std::fs::read_to_string(format!("{of_process}/net/{protocol}")).unwrap_or_default();
        for line in table.lines().skip(1) {
            let cells: Vec<&str> = line.split_whitespace().collect();
            let (local, state, inode) = (cells[1], cells[3], cells[9].parse::<u64>().unwrap());
            if state == listening && ours.contains(&inode) {
                let (address, port) = local.split_once(':').unwrap();
                all.push((protocol, address_of(address), u16::from_str_radix(port, 16).unwrap()));
            }
        }
    }
    all.sort();
    all
}

/// An address as the kernel prints it: four-byte words in host byte order.
fn address_of(text: &str) -> IpAddr {
    let word = |at: usize| u32::from_str_radix(&text[at..at + 8], 16).unwrap().to_ne_bytes();
    match text.len() {
        8 => IpAddr::from(word(0)),
        _ => IpAddr::from(<[u8; 16]>::try_from([word(0), word(8), word(16), word(24)].concat()).unwrap()),
    }
}

/// A service without settings, not even ports, in a network namespace of its own, where the default ports are
/// free.
async fn by_default(more: &[(&str, &str)]) -> Server {
    let alone = ["unshare", "--net", "sh", "-c", "ip link set lo up && exec \"$0\" \"$@\""];
    let setup = Setup::by_default().with("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").started_by(&alone);
    more.iter().fold(setup, |setup, (key, value)| setup.with(key, value)).start().await
}

// Seen failing on: a metrics port on 0.0.0.0.
#[tokio::test]
async fn default_listeners_are_three_and_all_on_loopback() {
    let loopback = IpAddr::from([127, 0, 0, 1]);
    let server = by_default(&[]).await;
    let expected = [8080, 8081, 9090].map(|port| ("tcp", loopback, port));
    assert_eq!(listeners(server.process()), expected);
    // A gateway adds its own listener, on loopback as well, and each host setting opens one port.
    let services = "[{id: app, upstream: 'http://192.0.2.1:80'}]";
    let server = by_default(&[("gateway.services", services), ("server.metrics_host", "0.0.0.0")]).await;
    let all = IpAddr::from([0, 0, 0, 0]);
    let mut expected = [8080, 8081, 10080].map(|port| ("tcp", loopback, port)).to_vec();
    expected.push(("tcp", all, 9090));
    expected.sort();
    assert_eq!(listeners(server.process()), expected);
}

// Seen failing on: a metrics port that is open too.
#[tokio::test]
async fn mesh_port_is_open_only_with_mesh_storage() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    assert_eq!(hivemind(&["certs", "ca", "--out", &file("ca")]).0, Some(0));
    let issued = hivemind(&["certs", "node", "--ca", &file("ca"), "--name", "a", "--out", &file("a")]);
    assert_eq!(issued.0, Some(0), "{}", issued.1);
    let (ca, cert, key) = (file("a/ca.crt"), file("a/node.crt"), file("a/node.key"));
    let files = [("mesh.tls.ca", &*ca), ("mesh.tls.cert", &cert), ("mesh.tls.key", &key)];
    for kind in ["memory", "mesh"] {
        let server = by_default(&[&files[..], &[("storage.kind", kind)]].concat()).await;
        let outside: Vec<_> =
            listeners(server.process()).into_iter().filter(|(_, ip, _)| !ip.is_loopback()).collect();
        let all = IpAddr::from([0, 0, 0, 0]);
        let expected = if kind == "mesh" { vec![("tcp", all, 7946), ("udp", all, 7946)] } else { vec![] };
        assert_eq!(outside, expected, "{kind}");
    }
}
