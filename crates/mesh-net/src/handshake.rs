//! Handshake of a connection: both sides exchange a hello and check it against the certificate. The caller sends first;
//! the acceptor answers only after the check, so a stranger learns nothing.

mod hello;

pub(super) use hello::{Hello, MAX_NAME_LEN};

use super::identity::is_for;
use super::link::{Reads, Writes};
use super::message::{self, MessageKind};
use hivemind_mesh::Member;
use hivemind_mesh::NodeId;
use rustls::pki_types::CertificateDer;
use std::io;
use std::time::Duration;

/// Timeout of the handshake: certificate and hello.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Why a handshake failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeFailure {
    #[error("the peer's certificate is not valid for its name `{0}`")]
    NameMismatch(NodeId),
    #[error("the peer belongs to the mesh `{theirs}`, this node to `{ours}`")]
    ClusterMismatch { ours: String, theirs: String },
    #[error("the address belongs to this node")]
    SelfConnection,
    #[error("another process uses this node's name `{}` (its generation is {})", .0.id, .0.generation.0)]
    DuplicateName(Member),
    #[error("the peer closed the connection during the handshake ({0})")]
    Closed(io::Error),
    #[error("the peer's hello cannot be decoded: it does not speak this version of the mesh protocol")]
    Malformed,
    #[error("the peer sent no certificate")]
    NoCertificate,
    #[error("the handshake took longer than {0:?}")]
    Timeout(Duration),
    #[error("{0}")]
    Io(#[from] io::Error),
}

impl HandshakeFailure {
    /// What an operator can do about it.
    pub(super) fn remedy(&self) -> &'static str {
        match self {
            Self::DuplicateName(_) => "give each node its own name with `mesh.node_id` or `MESH_NODE_ID`",
            Self::NameMismatch(_) => "create a certificate for its name with `hivemind certs node`",
            Self::ClusterMismatch { .. } | Self::Malformed | Self::SelfConnection => {
                "check that the address belongs to a node of this mesh; see `mesh.cluster_id`"
            }
            Self::Closed(_) => {
                "see the peer's log; `mesh.cluster_id` and `mesh.tls.ca` must be the same on both nodes"
            }
            Self::NoCertificate | Self::Timeout(_) | Self::Io(_) => {
                "check that a node runs there, that its port is open by UDP and by TCP, and that `mesh.tls.ca` is the same on both nodes"
            }
        }
    }

    /// The more informative of two errors of one address: this one over QUIC, or one over TCP. A timeout over QUIC only
    /// shows that no datagrams arrive.
    pub(super) fn or_over_tcp(self, over_tcp: Self) -> Self {
        if matches!(self, Self::Timeout(_)) { over_tcp } else { self }
    }
}

/// Limits the time of everything before the first frame.
pub(super) async fn with_timeout<T>(
    steps: impl Future<Output = Result<T, HandshakeFailure>>,
) -> Result<T, HandshakeFailure> {
    tokio::time::timeout(TIMEOUT, steps).await.map_err(|_| HandshakeFailure::Timeout(TIMEOUT))?
}

/// Performs the handshake of an outbound connection.
pub(super) async fn initiate(
    (reads, writes): (&mut Reads, &mut Writes),
    mine: &Hello,
    chain: &[CertificateDer<'_>],
) -> Result<Hello, HandshakeFailure> {
    message::write(writes, MessageKind::Hello, &mine.write()).await?;
    // A peer that rejects this node sends nothing.
    let theirs = read(reads).await.map_err(|error| match error {
        HandshakeFailure::Io(cause) => HandshakeFailure::Closed(cause),
        other => other,
    })?;
    check(mine, &theirs, chain)?;
    Ok(theirs)
}

/// Performs the handshake of an inbound connection.
pub(super) async fn respond(
    (reads, writes): (&mut Reads, &mut Writes),
    mine: &Hello,
    chain: &[CertificateDer<'_>],
) -> Result<Hello, HandshakeFailure> {
    let theirs = read(reads).await?;
    let checked = check(mine, &theirs, chain);
    if matches!(checked, Ok(()) | Err(HandshakeFailure::SelfConnection | HandshakeFailure::DuplicateName(_)))
    {
        message::write(writes, MessageKind::Hello, &mine.write()).await?;
    }
    if matches!(checked, Err(HandshakeFailure::SelfConnection | HandshakeFailure::DuplicateName(_))) {
        // The caller has to receive this node's hello to detect the conflict, and then closes the connection.
        let _ = read(reads).await;
    }
    checked.map(|()| theirs)
}

/// Checks a hello that arrived after frames were sent.
pub(super) fn verify_hello(
    mine: &Hello,
    body: &[u8],
    chain: &[CertificateDer<'_>],
) -> Result<Hello, HandshakeFailure> {
    let theirs = Hello::read(body).map_err(|_| HandshakeFailure::Malformed)?;
    check(mine, &theirs, chain)?;
    Ok(theirs)
}

async fn read(reads: &mut Reads) -> Result<Hello, HandshakeFailure> {
    let mut body = Vec::new();
    match message::read(reads, &mut body, hello::MAX_LEN).await? {
        Some(MessageKind::Hello) => Hello::read(&body).map_err(|_| HandshakeFailure::Malformed),
        Some(_) => Err(HandshakeFailure::Malformed),
        None => Err(HandshakeFailure::Io(io::ErrorKind::UnexpectedEof.into())),
    }
}

fn check(mine: &Hello, theirs: &Hello, chain: &[CertificateDer<'_>]) -> Result<(), HandshakeFailure> {
    let certificate = chain.first().ok_or(HandshakeFailure::NoCertificate)?;
    if !is_for(certificate, &theirs.member.id) {
        return Err(HandshakeFailure::NameMismatch(theirs.member.id.clone()));
    }
    if mine.cluster != theirs.cluster {
        let (ours, theirs) = (mine.cluster.clone(), theirs.cluster.clone());
        return Err(HandshakeFailure::ClusterMismatch { ours, theirs });
    }
    if mine.member == theirs.member {
        return Err(HandshakeFailure::SelfConnection);
    }
    if mine.member.id == theirs.member.id {
        return Err(HandshakeFailure::DuplicateName(theirs.member.clone()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};

    /// Results of a handshake between two processes of one name: the caller's, and the acceptor's.
    async fn handshake_results(generations: [u64; 2]) -> [Result<Hello, HandshakeFailure>; 2] {
        let parameters = CertificateParams::new(vec!["a".to_owned()]).expect("a certificate");
        let key = KeyPair::generate().expect("a key");
        let certificate = parameters.self_signed(&key).expect("a certificate");
        let chain = [certificate.der().clone()];
        let [mine, theirs] = generations.map(|generation| {
            let member = Member::new(NodeId::new("a"), generation);
            Hello { cluster: "test".to_owned(), member, address: None, port: 7_946, renews: false }
        });
        let (here, there) = tokio::io::duplex(4_096);
        let (reads, writes) = tokio::io::split(here);
        let (mut reads, mut writes): (Reads, Writes) = (Box::new(reads), Box::new(writes));
        let initiating = async {
            let result = initiate((&mut reads, &mut writes), &mine, &chain).await;
            drop((reads, writes)); // Closes the connection.
            result
        };
        let (in_, out) = tokio::io::split(there);
        let (mut in_, mut out): (Reads, Writes) = (Box::new(in_), Box::new(out));
        let responding = respond((&mut in_, &mut out), &theirs, &chain);
        tokio::join!(initiating, with_timeout(responding)).into()
    }

    // A node may be in its own list of peers. Fails when the caller gets no answer: it would dial every few seconds.
    #[tokio::test]
    async fn node_that_dials_itself_detects_it() {
        for result in handshake_results([1, 1]).await {
            assert!(matches!(result, Err(HandshakeFailure::SelfConnection)), "{result:?}");
        }
    }

    // Fails when names are compared without generations: each process would take the other for itself.
    #[tokio::test]
    async fn two_processes_of_one_name_detect_each_other() {
        for (result, other) in handshake_results([1, 2]).await.into_iter().zip([2, 1]) {
            let is_detected =
                matches!(&result, Err(HandshakeFailure::DuplicateName(found)) if found.generation.0 == other);
            assert!(is_detected, "{result:?}");
        }
    }
}
