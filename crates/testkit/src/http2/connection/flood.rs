//! Floods: sends large amounts of frames until the server has read them or closes the connection.

use super::{Connection, ConnectionEnd};
use crate::http2::Frame;
use crate::within;
use tokio::io::Interest;

impl Connection {
    /// Sends a flood, reading meanwhile, until all is sent or the connection has ended.
    pub async fn flood(&mut self, bytes: &[u8]) -> Option<ConnectionEnd> {
        let mut rest = bytes;
        while !rest.is_empty() {
            // Also reads while writes block: a server that waits for the client to read cannot read itself.
            let ready = self.socket.ready(Interest::READABLE | Interest::WRITABLE);
            within("a server that reads or closes", ready).await.unwrap();
            match self.socket.try_write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                // Data that was sent before the close can still be read.
                Err(_) => return Some(self.ended().await),
            }
            while let Some(came) = self.read_now() {
                if !came {
                    return Some(self.ended().await);
                }
            }
        }
        None
    }

    /// Waits until a flood was processed, by a PING after it, or has ended the connection.
    pub async fn flood_done(&mut self) -> Option<ConnectionEnd> {
        let before = self.pongs.len();
        if let Some(ended) = self.flood(&Frame::ping(*b"the-end!").bytes()).await {
            return Some(ended);
        }
        while self.pongs[before..].iter().all(|pong| pong != b"the-end!") {
            if within("a pong or the end", self.read()).await.is_none() {
                return Some(self.ended().await);
            }
        }
        None
    }

    /// Reads a frame that has already arrived: false at the end of the connection, none if nothing has arrived.
    fn read_now(&mut self) -> Option<bool> {
        let mut buffer = [0; 16_384];
        let read = match self.socket.try_read(&mut buffer) {
            Ok(0) => return Some(false),
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return None,
            Err(_) => return Some(false),
        };
        self.unread.extend(&buffer[..read]);
        while let Some(frame) = self.parse() {
            self.sort(&frame);
        }
        Some(true)
    }
}
