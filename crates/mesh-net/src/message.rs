//! Messages on a stream: what kind, how long, then so many bytes. The same over QUIC, where each
//! kind that must not wait for another has a stream of its own, and over TCP, where all share one.

use hivemind_mesh::frame::LONGEST_FRAME;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Hello,
    /// A frame of the state machine that somebody waits for.
    Ask,
    /// A frame that has time.
    Sync,
    /// Who else there is.
    Roster,
}

const KINDS: [(u8, Kind); 4] = [(0, Kind::Hello), (1, Kind::Ask), (2, Kind::Sync), (3, Kind::Roster)];

/// The bytes before a message.
pub(super) const HEAD: usize = 5;

/// A message as it goes over a stream.
pub(super) fn written(kind: Kind, body: &[u8]) -> Vec<u8> {
    let code = KINDS.iter().find(|(_, known)| *known == kind).map_or(u8::MAX, |(code, _)| *code);
    let mut bytes = Vec::with_capacity(HEAD + body.len());
    bytes.push(code);
    bytes.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

pub(super) async fn write(stream: &mut (impl AsyncWrite + Unpin), kind: Kind, body: &[u8]) -> io::Result<()> {
    stream.write_all(&written(kind, body)).await?;
    stream.flush().await
}

/// Reads the next message into `body`; none at the end of the stream.
pub(super) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    body: &mut Vec<u8>,
    longest: usize,
) -> io::Result<Option<Kind>> {
    let mut head = [0_u8; HEAD];
    match stream.read_exact(&mut head).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    };
    let [code, length @ ..] = head;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    let kind = KINDS.iter().find(|(known, _)| *known == code).map(|(_, kind)| *kind);
    let Some(kind) = kind.filter(|_| length <= longest.min(LONGEST_FRAME)) else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "no message of the mesh"));
    };
    body.clear();
    body.resize(length, 0);
    stream.read_exact(body).await?;
    Ok(Some(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn messages_are_read_as_they_were_written_and_others_are_refused() {
        let mut bytes = written(Kind::Ask, b"need");
        bytes.extend(written(Kind::Sync, b""));
        let mut stream = bytes.as_slice();
        let mut body = Vec::new();
        assert_eq!(read(&mut stream, &mut body, 100).await.unwrap(), Some(Kind::Ask));
        assert_eq!(body, b"need");
        assert_eq!(read(&mut stream, &mut body, 100).await.unwrap(), Some(Kind::Sync));
        assert_eq!(body, b"");
        assert_eq!(read(&mut stream, &mut body, 100).await.unwrap(), None);

        let mut too_long: &[u8] = &written(Kind::Sync, &[0; 101]);
        assert!(read(&mut too_long, &mut body, 100).await.is_err());
        let mut unknown: &[u8] = &[9, 0, 0, 0, 0];
        assert!(read(&mut unknown, &mut body, 100).await.is_err());
        let mut cut: &[u8] = &[1, 0, 0, 0, 9, 1];
        assert!(read(&mut cut, &mut body, 100).await.is_err());
    }
}
