//! Errors of certificate files, with the file and the fix.

use super::MAX_FILE_SIZE;
use hivemind_mesh::NodeId;
use std::path::PathBuf;

/// Why a node has no identity.
///
/// ```
/// use hivemind_mesh_net::NodeIdentityError;
///
/// let error = NodeIdentityError::Missing { file: "a.key".into(), what: "private key" };
/// assert_eq!(error.to_string(), "a.key: no valid private key in PEM; create one with `hivemind certs`");
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeIdentityError {
    /// A file is missing or not readable.
    #[error("{}: cannot be read: {cause}; create it with `hivemind certs`", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The cause.
        cause: std::io::Error,
    },
    /// A file is too large.
    #[error("{}: larger than {MAX_FILE_SIZE} bytes; remove everything but the PEM text", file.display())]
    TooLarge {
        /// The file.
        file: PathBuf,
    },
    /// A file does not contain the object.
    #[error("{}: no valid {what} in PEM; create one with `hivemind certs`", file.display())]
    Missing {
        /// The file.
        file: PathBuf,
        /// The missing object.
        what: &'static str,
    },
    /// The certificate and the key are not a pair.
    #[error("{}: the key does not match {}; configure the two files that were created together", key.display(), cert.display())]
    Mismatch {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// The certificate is for a different name, so peers would reject it.
    #[error("{}: the certificate is not for the name `{name}`; set `mesh.node_id` to its name, or create one with `hivemind certs node --name {name}`", cert.display())]
    OtherName {
        /// The certificate's file.
        cert: PathBuf,
        /// This node's name.
        name: NodeId,
    },
    /// The certificate is not of the CA or has expired, so peers would reject it.
    #[error("{}: peers would reject this certificate: {cause}; create a new one with `hivemind certs node` and the CA in {}", cert.display(), ca.display())]
    Refused {
        /// The certificate's file.
        cert: PathBuf,
        /// The CA's file.
        ca: PathBuf,
        /// The cause.
        cause: String,
    },
    /// TLS configuration failed.
    #[error("TLS cannot be set up: {0}")]
    Tls(String),
}
