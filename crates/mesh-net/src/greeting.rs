//! The first words of a connection. Whoever called speaks first; the other answers once it
//! knows that it wants this peer. A stranger gets no word that it could learn from.

use super::hello::{self, Hello};
use super::identity::is_for;
use super::link::{Reads, Writes};
use super::message::{self, Kind};
use hivemind_mesh::Member;
use hivemind_mesh::NodeId;
use rustls::pki_types::CertificateDer;
use std::io;
use std::time::Duration;

/// How long the other side may take for its certificate and its first word.
const PATIENCE: Duration = Duration::from_secs(5);

/// Why a peer is not spoken to.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("its certificate is not for the name `{0}` that it gives")]
    OtherName(NodeId),
    #[error("it is of the mesh `{theirs}`, and this one is `{ours}`; see `mesh.cluster_id`")]
    OtherCluster { ours: String, theirs: String },
    #[error("it is this node itself")]
    Itself,
    #[error("it has this node's name `{}` and is another process (its run is {})", .0.id, .0.generation.0)]
    SameName(Member),
    #[error("it hung up on this node's greeting ({0})")]
    HungUp(io::Error),
    #[error("it spoke no words of this version of the mesh")]
    Unreadable,
    #[error("it showed no certificate")]
    NoCertificate,
    #[error("it took longer than {0:?}")]
    Late(Duration),
    #[error("{0}")]
    Lost(#[from] io::Error),
}

impl Refusal {
    /// What an operator can do about it.
    pub(super) fn remedy(&self) -> &'static str {
        match self {
            Self::SameName(_) => "give each node a name of its own; see `mesh.node_id` and `MESH_NODE_ID`",
            Self::OtherName(_) => "give it a certificate for its name by `hivemind certs node`",
            Self::OtherCluster { .. } | Self::Unreadable | Self::Itself => {
                "see that it is a node of this mesh; see `mesh.cluster_id`"
            }
            Self::HungUp(_) => {
                "its log says why; see that `mesh.cluster_id` and `mesh.tls.ca` are the same on both"
            }
            Self::NoCertificate | Self::Late(_) | Self::Lost(_) => {
                "see that a node runs there whose port is open by UDP and by TCP, and that `mesh.tls.ca` is the same on both"
            }
        }
    }

    /// Of the refusals of one address by datagrams and by TCP, the one that says more: datagrams that nobody
    /// answers say nothing.
    pub(super) fn or_by_tcp(self, by_tcp: Self) -> Self {
        if matches!(self, Self::Late(_)) { by_tcp } else { self }
    }
}

/// All that comes before the first frame has so long together.
pub(super) async fn in_time<T>(meeting: impl Future<Output = Result<T, Refusal>>) -> Result<T, Refusal> {
    tokio::time::timeout(PATIENCE, meeting).await.map_err(|_| Refusal::Late(PATIENCE))?
}

/// Greets a peer that this node called.
pub(super) async fn call(
    (reads, writes): (&mut Reads, &mut Writes),
    mine: &Hello,
    chain: &[CertificateDer<'_>],
) -> Result<Hello, Refusal> {
    message::write(writes, Kind::Hello, &mine.write()).await?;
    // A peer that does not want this node says nothing at all.
    let theirs = read(reads).await.map_err(|refusal| match refusal {
        Refusal::Lost(cause) => Refusal::HungUp(cause),
        other => other,
    })?;
    check(mine, &theirs, chain)?;
    Ok(theirs)
}

/// Hears out a peer that called, and answers.
pub(super) async fn answer(
    (reads, writes): (&mut Reads, &mut Writes),
    mine: &Hello,
    chain: &[CertificateDer<'_>],
) -> Result<Hello, Refusal> {
    let theirs = read(reads).await?;
    let checked = check(mine, &theirs, chain);
    if matches!(checked, Ok(()) | Err(Refusal::Itself | Refusal::SameName(_))) {
        message::write(writes, Kind::Hello, &mine.write()).await?;
    }
    if matches!(checked, Err(Refusal::Itself | Refusal::SameName(_))) {
        // A node that calls itself, or another of its name, has to hear who answers: it hangs up once it has.
        let _ = read(reads).await;
    }
    checked.map(|()| theirs)
}

/// A greeting that came while frames were already on their way.
pub(super) fn heard(mine: &Hello, body: &[u8], chain: &[CertificateDer<'_>]) -> Result<Hello, Refusal> {
    let theirs = Hello::read(body).map_err(|_| Refusal::Unreadable)?;
    check(mine, &theirs, chain)?;
    Ok(theirs)
}

async fn read(reads: &mut Reads) -> Result<Hello, Refusal> {
    let mut body = Vec::new();
    match message::read(reads, &mut body, hello::LONGEST).await? {
        Some(Kind::Hello) => Hello::read(&body).map_err(|_| Refusal::Unreadable),
        Some(_) => Err(Refusal::Unreadable),
        None => Err(Refusal::Lost(io::ErrorKind::UnexpectedEof.into())),
    }
}

fn check(mine: &Hello, theirs: &Hello, chain: &[CertificateDer<'_>]) -> Result<(), Refusal> {
    let certificate = chain.first().ok_or(Refusal::NoCertificate)?;
    if !is_for(certificate, &theirs.member.id) {
        return Err(Refusal::OtherName(theirs.member.id.clone()));
    }
    if mine.cluster != theirs.cluster {
        let (ours, theirs) = (mine.cluster.clone(), theirs.cluster.clone());
        return Err(Refusal::OtherCluster { ours, theirs });
    }
    if mine.member == theirs.member {
        return Err(Refusal::Itself);
    }
    if mine.member.id == theirs.member.id {
        return Err(Refusal::SameName(theirs.member.clone()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair};

    /// What two runs of one name hear of each other: the one that called, and the one that answered.
    async fn met(runs: [u64; 2]) -> [Result<Hello, Refusal>; 2] {
        let parameters = CertificateParams::new(vec!["a".to_owned()]).expect("a certificate");
        let key = KeyPair::generate().expect("a key");
        let certificate = parameters.self_signed(&key).expect("a certificate");
        let chain = [certificate.der().clone()];
        let [mine, theirs] = runs.map(|run| {
            let member = Member::new(NodeId::new("a"), run);
            Hello { cluster: "test".to_owned(), member, address: None, port: 7_946, renews: false }
        });
        let (here, there) = tokio::io::duplex(4_096);
        let (reads, writes) = tokio::io::split(here);
        let (mut reads, mut writes): (Reads, Writes) = (Box::new(reads), Box::new(writes));
        let calling = async {
            let heard = call((&mut reads, &mut writes), &mine, &chain).await;
            drop((reads, writes)); // It hangs up.
            heard
        };
        let (in_, out) = tokio::io::split(there);
        let (mut in_, mut out): (Reads, Writes) = (Box::new(in_), Box::new(out));
        let answering = answer((&mut in_, &mut out), &theirs, &chain);
        tokio::join!(calling, in_time(answering)).into()
    }

    /// A node may be in its own list of peers. Seen failing on: a caller that gets no answer (as it was first written),
    /// and calls again every few seconds.
    #[tokio::test]
    async fn a_node_that_calls_itself_hears_so() {
        for met in met([1, 1]).await {
            assert!(matches!(met, Err(Refusal::Itself)), "{met:?}");
        }
    }

    // Against: names compared without runs, by which two processes took each other for themselves.
    #[tokio::test]
    async fn two_processes_of_one_name_hear_of_each_other() {
        for (met, other) in met([1, 2]).await.into_iter().zip([2, 1]) {
            assert!(matches!(&met, Err(Refusal::SameName(found)) if found.generation.0 == other), "{met:?}");
        }
    }
}
