//! Node names: the identity of a node in its certificate and among peers.
//!
//! A name is a DNS name, because certificates identify DNS names, and is converted to lower case, because certificates
//! ignore case. A pod is named `pod.namespace.pod`, also written `namespace/pod`: with three labels, one certificate
//! for `*.namespace.pod` is valid for every pod of a namespace. (TLS requires at least two labels after a wildcard.)

use rustls::pki_types::DnsName;
use std::fmt;

/// Maximum length of a name, which is part of each handshake.
const LONGEST: usize = 128;
/// Suffix of pod names.
const POD: &str = "pod";

/// The name of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeName(String);

/// Why a text is not a node name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` cannot be the name of a node: write letters, digits, `-` and `_`, in parts with `.` between them, at most 63 \
     in a part and 128 in all, as in `node-1`; a pod is `namespace/pod`"
)]
pub struct NameError(String);

impl NodeName {
    /// Parses a name.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let wrong = || NameError(text.chars().take(LONGEST + 1).collect());
        let name = match text.split_once('/') {
            Some((namespace, pod)) => return Self::of_pod(namespace, pod).map_err(|_| wrong()),
            None => text.to_ascii_lowercase(),
        };
        // TLS would verify an address as an IP address, but these certificates contain names.
        let is_name =
            name.len() <= LONGEST && !name.ends_with('.') && DnsName::try_from(name.as_str()).is_ok();
        if is_name { Ok(Self(name)) } else { Err(wrong()) }
    }

    /// The name of a pod.
    pub(crate) fn of_pod(namespace: &str, pod: &str) -> Result<Self, NameError> {
        let whole = format!("{pod}.{namespace}.{POD}");
        if namespace.contains(['/', '.']) || pod.contains('/') {
            return Err(NameError(whole));
        }
        Self::parse(&whole)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A name in a certificate: a node name, or `*.` and a name, which matches one more label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertifiedName(String);

impl CertifiedName {
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let Some(below) = text.strip_prefix("*.") else {
            return NodeName::parse(text).map(|name| Self(name.0));
        };
        let below = NodeName::parse(below).map_err(|_| NameError(text.to_owned()))?;
        if text.contains('/') || !below.as_str().contains('.') {
            return Err(NameError(text.to_owned()));
        }
        Ok(Self(format!("*.{below}")))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{CertifiedName, NodeName};

    #[test]
    fn node_name_is_a_valid_certificate_name() {
        for (text, name) in [
            ("a", Some("a")),
            ("Node-1", Some("node-1")),
            ("cache_2.eu.example.org", Some("cache_2.eu.example.org")),
            ("shop/api-7f9c-x2x", Some("api-7f9c-x2x.shop.pod")),
            ("", None),
            ("two words", None),
            ("a/b/c", None),
            ("sh.op/a", None),
            ("/a", None),
            ("-a", None),
            ("a.", None),
            ("a..b", None),
            ("*.a.b", None),
            ("192.0.2.1", None),
            ("::1", None),
            ("7", None),
            ("käse", None),
        ] {
            assert_eq!(NodeName::parse(text).ok().as_ref().map(NodeName::as_str), name, "{text:?}");
        }
        assert!(NodeName::parse(&"a".repeat(64)).is_err());
        assert!(NodeName::parse(&["a"; 65].join(".")).is_err());
        assert!(NodeName::parse(&["a"; 64].join(".")).is_ok());
    }

    #[test]
    fn certificate_wildcard_needs_two_labels() {
        for (text, name) in [
            ("*.shop.pod", Some("*.shop.pod")),
            ("*.Shop.pod", Some("*.shop.pod")),
            ("node-1", Some("node-1")),
            ("shop/a", Some("a.shop.pod")),
            ("*.pod", None),
            ("*", None),
            ("*.*.pod", None),
            ("*.shop/pod", None),
            ("a.*.pod", None),
        ] {
            assert_eq!(CertifiedName::parse(text).ok().as_ref().map(CertifiedName::as_str), name, "{text:?}");
        }
    }
}
