//! Bodies that respect the server's flow-control windows.

use super::{Connection, ConnectionEnd};
use crate::http2::Frame;

impl Connection {
    /// Sends a body as fast as the server's windows allow.
    pub async fn send_body(&mut self, stream: u32, body: &[u8]) {
        let ended = self.send_pieces(stream, body, true).await;
        assert_eq!(ended, None, "the connection ended amid a body");
    }

    /// Sends a part of a body, without its end. Returns how the connection ended, if it did.
    pub async fn send_part(&mut self, stream: u32, part: &[u8]) -> Option<ConnectionEnd> {
        self.send_pieces(stream, part, false).await
    }

    async fn send_pieces(&mut self, stream: u32, body: &[u8], whole: bool) -> Option<ConnectionEnd> {
        for (index, piece) in body.chunks(16_384).enumerate() {
            let size = i64::try_from(piece.len()).unwrap();
            while self.window < size || self.first_window + self.sent(stream) < size {
                if self.streams.get(&stream).is_some_and(|answer| answer.ended) {
                    return None;
                }
                self.read().await.expect("a frame");
            }
            self.window -= size;
            *self.windows.entry(stream).or_default() -= size;
            let frame = Frame::data(stream, piece);
            let last = whole && (index + 1) * 16_384 >= body.len();
            let frame = if last { frame.end() } else { frame };
            // Reads meanwhile: a server that refuses a body may close before all of it is sent.
            let ended = self.flood(&frame.bytes()).await;
            if ended.is_some() {
                return ended;
            }
        }
        None
    }

    fn sent(&self, stream: u32) -> i64 {
        self.windows.get(&stream).copied().unwrap_or(0)
    }
}
