//! Why a node has no identity: which file, and what to do about it.

use super::LARGEST_FILE;
use hivemind_mesh::NodeId;
use std::path::PathBuf;

/// Why a node has no identity.
///
/// ```
/// use hivemind_mesh_net::IdentityError;
///
/// let error = IdentityError::Missing { file: "a.key".into(), what: "private key" };
/// assert_eq!(error.to_string(), "a.key: has no private key as PEM that can be used; `hivemind certs` makes one");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// A file is not there, or may not be read.
    #[error("{}: cannot be read: {cause}; `hivemind certs` makes it", file.display())]
    Unreadable {
        /// Which file.
        file: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// A file is far too large.
    #[error("{}: has more than {LARGEST_FILE} bytes; give the PEM text alone", file.display())]
    TooLarge {
        /// Which file.
        file: PathBuf,
    },
    /// A file has no such thing.
    #[error("{}: has no {what} as PEM that can be used; `hivemind certs` makes one", file.display())]
    Missing {
        /// Which file.
        file: PathBuf,
        /// What.
        what: &'static str,
    },
    /// The certificate and the key are not a pair.
    #[error("{}: the key is not that of {}; give the two that were made together", key.display(), cert.display())]
    Mismatch {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// Peers would not believe this node's name.
    #[error("{}: the certificate is not for the name `{name}`; set `mesh.node_id` to the name it is for, or make one by `hivemind certs node --name {name}`", cert.display())]
    OtherName {
        /// The certificate's file.
        cert: PathBuf,
        /// This node's name.
        name: NodeId,
    },
    /// The certificate is not of the CA, or has expired: no peer would believe it.
    #[error("{}: peers would not accept this certificate: {cause}; make a new one by `hivemind certs node` with the CA in {}", cert.display(), ca.display())]
    Refused {
        /// The certificate's file.
        cert: PathBuf,
        /// The CA's file.
        ca: PathBuf,
        /// Why.
        cause: String,
    },
    /// TLS itself.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
}
