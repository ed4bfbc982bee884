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
    check(mine, &theirs, chain)?;
    message::write(writes, Kind::Hello, &mine.write()).await?;
    Ok(theirs)
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
