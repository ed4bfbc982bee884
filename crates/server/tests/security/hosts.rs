//! Which addresses a service is reached at.

use crate::RULES;
use hivemind_testkit::{Server, Setup, hivemind};
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

/// What a process listens on, as the kernel has it: each socket by its protocol, its address and its port. Datagrams
/// have no listening state; those of them count that are connected to nobody.
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

/// An address as the kernel writes it: words of four bytes, each in the order of this machine.
fn address_of(text: &str) -> IpAddr {
    let word = |at: usize| u32::from_str_radix(&text[at..at + 8], 16).unwrap().to_ne_bytes();
    match text.len() {
        8 => IpAddr::from(word(0)),
        _ => IpAddr::from(<[u8; 16]>::try_from([word(0), word(8), word(16), word(24)].concat()).unwrap()),
    }
}

/// A service with nothing set, not even its ports, in a network of its own: there they are free.
async fn by_default(more: &[(&str, &str)]) -> Server {
    let alone = ["unshare", "--net", "sh", "-c", "ip link set lo up && exec \"$0\" \"$@\""];
    let setup = Setup::by_default().with("PATH", "/usr/bin:/bin:/usr/sbin:/sbin").started_by(&alone);
    more.iter().fold(setup, |setup, (key, value)| setup.with(key, value)).start().await
}

// Seen failing on: a metrics port on 0.0.0.0.
#[tokio::test]
async fn by_default_the_kernel_knows_of_three_listeners_and_all_are_on_loopback() {
    let loopback = IpAddr::from([127, 0, 0, 1]);
    let server = by_default(&[]).await;
    let expected = [8080, 8081, 9090].map(|port| ("tcp", loopback, port));
    assert_eq!(listeners(server.process()), expected);
    // A gateway adds its own, on loopback as well, and each host opens one port.
    let services = "[{id: app, upstream: 'http://192.0.2.1:80'}]";
    let server = by_default(&[("gateway.services", services), ("server.metrics_host", "0.0.0.0")]).await;
    let all = IpAddr::from([0, 0, 0, 0]);
    let mut expected = [8080, 8081, 10080].map(|port| ("tcp", loopback, port)).to_vec();
    expected.push(("tcp", all, 9090));
    expected.sort();
    assert_eq!(listeners(server.process()), expected);
}

// Seen failing on: a metrics port that is open beside it.
#[tokio::test]
async fn the_mesh_port_is_open_to_the_network_where_limits_are_shared_by_a_mesh_and_only_there() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    assert_eq!(hivemind(&["certs", "ca", "--out", &file("ca")]).0, Some(0));
    let made = hivemind(&["certs", "node", "--ca", &file("ca"), "--name", "a", "--out", &file("a")]);
    assert_eq!(made.0, Some(0), "{}", made.1);
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
