//! The first words of a connection. Whoever called speaks first; the other answers once it
//! knows that it wants this peer. A stranger gets no word that it could learn from.

use super::hello::{self, Hello};
use super::identity::is_for;
use super::link::{Reads, Writes};
use super::message::{self, Kind};
use crate::owner::NodeId;
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
    #[error("it spoke no words of this version of the mesh")]
    Unreadable,
    #[error("it showed no certificate")]
    NoCertificate,
    #[error("it took longer than {0:?}")]
    Late(Duration),
    #[error("{0}")]
    Lost(#[from] io::Error),
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
    let theirs = read(reads).await?;
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
    if matches!(checked, Ok(()) | Err(Refusal::Itself)) {
        message::write(writes, Kind::Hello, &mine.write()).await?;
    }
    if matches!(checked, Err(Refusal::Itself)) {
        // A node that calls itself has to hear who answers, or it calls for ever: it hangs up once it has.
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
    if mine.member.id == theirs.member.id {
        return Err(Refusal::Itself);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::Member;
    use rcgen::{CertificateParams, KeyPair};

    /// A node may be in its own list of peers. Seen failing on: a caller that gets no answer (as it was first written),
    /// and calls again every few seconds.
    #[tokio::test]
    async fn a_node_that_calls_itself_hears_so() {
        let parameters = CertificateParams::new(vec!["a".to_owned()]).expect("a certificate");
        let key = KeyPair::generate().expect("a key");
        let certificate = parameters.self_signed(&key).expect("a certificate");
        let chain = [certificate.der().clone()];
        let member = Member::new(NodeId::new("a"), 1);
        let mine = Hello { cluster: "test".to_owned(), member, address: None, port: 7_946, renews: false };
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
        let answering = answer((&mut in_, &mut out), &mine, &chain);
        let (called, answered) = tokio::join!(calling, in_time(answering));
        assert!(matches!(called, Err(Refusal::Itself)), "{called:?}");
        assert!(matches!(answered, Err(Refusal::Itself)), "{answered:?}");
    }
}
