//! Mapping of the configuration to the settings of the mesh node.

use super::section::{MeshFiles, MeshSection};
use crate::rate_limiting::RateLimiting;
use hivemind_mesh::{MembershipOptions, MeshOptions, NodeId};
use hivemind_mesh_net::{Discovery, MeshSettings, MeshTlsFiles};

pub(super) fn settings(mesh: &MeshSection, limiting: &RateLimiting, name: &str) -> MeshSettings {
    let MeshFiles { ca, cert, key } = mesh.tls.clone();
    let membership = MembershipOptions {
        staleness: limiting.staleness_threshold,
        most_members: mesh.max_peers + 1,
        ..MembershipOptions::default()
    };
    MeshSettings {
        name: NodeId::new(name),
        cluster: mesh.cluster_id.clone(),
        bind: mesh.bind,
        advertise: mesh.advertise.ip,
        advertise_port: mesh.advertise.port,
        discovery: Discovery {
            peers: mesh.bootstrap_peers.clone(),
            dns: mesh.dns.iter().cloned().collect(),
            nameservers: Vec::new(),
            mdns: mesh.mdns,
        },
        max_peers: mesh.max_peers,
        tls: MeshTlsFiles { ca, cert, key },
        options: MeshOptions {
            on_unreachable: mesh.on_unreachable,
            sync_interval: mesh.sync_interval,
            ask_timeout: mesh.ask_timeout,
            max_keys: limiting.max_keys.get(),
            bandwidth_limit: Some(mesh.bandwidth_limit),
            membership,
            ..MeshOptions::default()
        },
    }
}
