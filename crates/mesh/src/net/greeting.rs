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

/// How long the other side may take for its first word.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

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

/// Greets a peer that this node called.
pub(super) async fn call(
    (reads, writes): (&mut Reads, &mut Writes),
    mine: &Hello,
    certificate: Option<&CertificateDer<'_>>,
) -> Result<Hello, Refusal> {
    let greeting = async {
        message::write(writes, Kind::Hello, &mine.write()).await?;
        let theirs = read(reads).await?;
        check(mine, &theirs, certificate)?;
        Ok(theirs)
    };
    tokio::time::timeout(PATIENCE, greeting).await.map_err(|_| Refusal::Late(PATIENCE))?
}

/// Hears out a peer that called, and answers.
pub(super) async fn answer(
    (reads, writes): (&mut Reads, &mut Writes),
    mine: &Hello,
    certificate: Option<&CertificateDer<'_>>,
) -> Result<Hello, Refusal> {
    let greeting = async {
        let theirs = read(reads).await?;
        check(mine, &theirs, certificate)?;
        message::write(writes, Kind::Hello, &mine.write()).await?;
        Ok(theirs)
    };
    tokio::time::timeout(PATIENCE, greeting).await.map_err(|_| Refusal::Late(PATIENCE))?
}

async fn read(reads: &mut Reads) -> Result<Hello, Refusal> {
    let mut body = Vec::new();
    match message::read(reads, &mut body, hello::LONGEST).await? {
        Some(Kind::Hello) => Hello::read(&body).map_err(|_| Refusal::Unreadable),
        Some(_) => Err(Refusal::Unreadable),
        None => Err(Refusal::Lost(io::ErrorKind::UnexpectedEof.into())),
    }
}

fn check(mine: &Hello, theirs: &Hello, certificate: Option<&CertificateDer<'_>>) -> Result<(), Refusal> {
    let certificate = certificate.ok_or(Refusal::NoCertificate)?;
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
