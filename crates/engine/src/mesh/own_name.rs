//! Default node name: `MESH_NODE_ID`, otherwise the pod's name, otherwise the name in the certificate. Peers
//! accept a name only if the certificate is valid for it, so the host name with a random suffix is used only with a
//! wildcard certificate.

use super::name::NodeName;
use super::section::MeshFiles;
use anyhow::{Context, bail};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::Path;
use webpki::EndEntityCert;

/// Maximum length of the host name in a node name: a wildcard matches a single label, which also has the suffix.
const LONGEST_HOST: usize = 40;

/// The name of this node; `variable` reads the environment.
pub(super) fn own_name(
    configured: Option<&NodeName>,
    variable: impl Fn(&str) -> Option<String>,
    files: &MeshFiles,
) -> anyhow::Result<NodeName> {
    if let Some(name) = configured {
        return Ok(name.clone());
    }
    let variable = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    if let Some(name) = variable("MESH_NODE_ID") {
        return NodeName::parse(name.trim()).context("MESH_NODE_ID");
    }
    if let (Some(namespace), Some(pod)) = (variable("POD_NAMESPACE"), variable("POD_NAME")) {
        return NodeName::of_pod(namespace.trim(), pod.trim()).context("POD_NAMESPACE and POD_NAME");
    }
    let host = rustix::system::uname().nodename().to_string_lossy().to_ascii_lowercase();
    of_certificate(&names(&files.cert)?, &host, tail(), &files.cert)
}

/// Chooses the name for this host from the names in the certificate.
fn of_certificate(names: &[String], host: &str, tail: u32, cert: &Path) -> anyhow::Result<NodeName> {
    let plain: Vec<&String> = names.iter().filter(|name| !name.starts_with("*.")).collect();
    if let [only] = plain.as_slice()
        && names.len() == 1
    {
        return Ok(NodeName::parse(only)?);
    }
    if let Some(same) = plain.iter().find(|name| name.eq_ignore_ascii_case(host)) {
        return Ok(NodeName::parse(same)?);
    }
    if let Some(below) = names.iter().find_map(|name| name.strip_prefix("*.")) {
        let label = host.split('.').next().unwrap_or_default();
        let kept = |c: &char| c.is_ascii_alphanumeric() || *c == '-';
        let label: String = label.chars().filter(kept).take(LONGEST_HOST).collect();
        return Ok(NodeName::parse(&format!("{}-{tail:08x}.{below}", label.trim_matches('-')))?);
    }
    bail!(
        "cannot choose a node name: the certificate {} is valid for {}; set `mesh.node_id` or MESH_NODE_ID to one of them",
        cert.display(),
        if names.is_empty() { "no name".to_owned() } else { names.join(", ") }
    )
}

/// The names in a certificate.
fn names(cert: &Path) -> anyhow::Result<Vec<String>> {
    let file = cert.display();
    let der = CertificateDer::from_pem_file(cert).with_context(|| {
        format!("`mesh.tls.cert`: {file} contains no PEM certificate; create one with `hivemind certs node`")
    })?;
    let parsed = EndEntityCert::try_from(&der).with_context(|| {
        format!("`mesh.tls.cert`: {file} is not a usable certificate; create one with `hivemind certs node`")
    })?;
    Ok(parsed.valid_dns_names().map(str::to_ascii_lowercase).collect())
}

/// A random suffix, new at each start.
fn tail() -> u32 {
    let random = RandomState::new().build_hasher().finish();
    u32::try_from(random >> 32).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_name_is_chosen_from_the_certificate() {
        for (names, name) in [
            (&["node-1"][..], Some("node-1")),
            (&["node-1", "web-7"], Some("web-7")),
            (&["node-1", "node-2"], None),
            (&["*.shop.pod"], Some("web-7-0000002a.shop.pod")),
            (&["node-1", "*.shop.pod"], Some("web-7-0000002a.shop.pod")),
            (&[], None),
        ] {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            let found = of_certificate(&names, "web-7", 42, Path::new("node.crt")).ok();
            assert_eq!(found.as_ref().map(NodeName::as_str), name, "{names:?}");
        }
    }

    #[test]
    fn configured_name_precedes_environment_and_certificate() {
        let files = MeshFiles::default();
        let found = |configured: Option<&str>, variables: &[(&str, &str)]| {
            let configured = configured.map(|name| NodeName::parse(name).unwrap());
            let variable = |name: &str| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            };
            own_name(configured.as_ref(), variable, &files).map(|name| name.to_string())
        };
        let pod = [("POD_NAMESPACE", "shop"), ("POD_NAME", "api-0")];
        let all = [pod[0], pod[1], ("MESH_NODE_ID", "Node-7")];
        assert_eq!(found(Some("a"), &all).unwrap(), "a");
        assert_eq!(found(None, &all).unwrap(), "node-7");
        assert_eq!(found(None, &pod).unwrap(), "api-0.shop.pod");
        assert!(
            found(None, &[("MESH_NODE_ID", "no name")]).unwrap_err().to_string().contains("MESH_NODE_ID")
        );
        assert!(found(None, &pod[..1]).is_err(), "a pod's name without its namespace is not a node name");
    }
}
