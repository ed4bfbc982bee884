//! Messages on a stream: type, length and body. QUIC has a stream per type where one must not wait for another; over TCP
//! all types share a stream.

use hivemind_mesh::frame::LONGEST_FRAME;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// Type of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageKind {
    Hello,
    /// A frame of the state machine whose sender waits for an answer.
    Ask,
    /// Any other frame of the state machine.
    Sync,
    /// The peer table and the replicated map.
    Gossip,
}

const KINDS: [(u8, MessageKind); 4] =
    [(0, MessageKind::Hello), (1, MessageKind::Ask), (2, MessageKind::Sync), (3, MessageKind::Gossip)];

/// Length of the header of a message, in bytes.
pub(super) const HEADER_LEN: usize = 5;

/// Encodes a message.
pub(super) fn encode(kind: MessageKind, body: &[u8]) -> Vec<u8> {
    let code = KINDS.iter().find(|(_, known)| *known == kind).map_or(u8::MAX, |(code, _)| *code);
    let mut bytes = Vec::with_capacity(HEADER_LEN + body.len());
    bytes.push(code);
    bytes.extend_from_slice(&u32::try_from(body.len()).unwrap_or(u32::MAX).to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

pub(super) async fn write(
    stream: &mut (impl AsyncWrite + Unpin),
    kind: MessageKind,
    body: &[u8],
) -> io::Result<()> {
    stream.write_all(&encode(kind, body)).await?;
    stream.flush().await
}

/// Reads the next message into `body`; returns `None` at the end of the stream.
pub(super) async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    body: &mut Vec<u8>,
    longest: usize,
) -> io::Result<Option<MessageKind>> {
    let mut head = [0_u8; HEADER_LEN];
    match stream.read_exact(&mut head).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    };
    let [code, length @ ..] = head;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    let kind = KINDS.iter().find(|(known, _)| *known == code).map(|(_, kind)| *kind);
    let Some(kind) = kind.filter(|_| length <= longest.min(LONGEST_FRAME)) else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "not a message of the mesh protocol"));
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
    async fn messages_survive_a_round_trip_and_invalid_ones_are_rejected() {
        let mut bytes = encode(MessageKind::Ask, b"need");
        bytes.extend(encode(MessageKind::Sync, b""));
        let mut stream = bytes.as_slice();
        let mut body = Vec::new();
        assert_eq!(read(&mut stream, &mut body, 100).await.unwrap(), Some(MessageKind::Ask));
        assert_eq!(body, b"need");
        assert_eq!(read(&mut stream, &mut body, 100).await.unwrap(), Some(MessageKind::Sync));
        assert_eq!(body, b"");
        assert_eq!(read(&mut stream, &mut body, 100).await.unwrap(), None);

        let mut too_long: &[u8] = &encode(MessageKind::Sync, &[0; 101]);
        assert!(read(&mut too_long, &mut body, 100).await.is_err());
        let mut unknown: &[u8] = &[9, 0, 0, 0, 0];
        assert!(read(&mut unknown, &mut body, 100).await.is_err());
        let mut cut: &[u8] = &[1, 0, 0, 0, 9, 1];
        assert!(read(&mut cut, &mut body, 100).await.is_err());
    }
}
