//! Sending far more than anybody should, until it is taken or cut off.

use super::{Connection, Ended};
use crate::http2::Frame;
use crate::within;
use tokio::io::Interest;

impl Connection {
    /// Sends far too much, reading meanwhile, until all is sent or the connection has ended.
    pub async fn flood(&mut self, bytes: &[u8]) -> Option<Ended> {
        let mut rest = bytes;
        while !rest.is_empty() {
            // Also while nothing can be written: a server that waits for us to read cannot read itself.
            let ready = self.socket.ready(Interest::READABLE | Interest::WRITABLE);
            within("a server that reads or closes", ready).await.unwrap();
            match self.socket.try_write(rest) {
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                // What was said before it was closed can still be read.
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

    /// Waits until a flood was read to its end, by a PING behind it, or has ended the connection.
    pub async fn flood_done(&mut self) -> Option<Ended> {
        let known = self.pongs.len();
        if let Some(ended) = self.flood(&Frame::ping(*b"the-end!").bytes()).await {
            return Some(ended);
        }
        while self.pongs[known..].iter().all(|pong| pong != b"the-end!") {
            if within("a pong or the end", self.read()).await.is_none() {
                return Some(self.ended().await);
            }
        }
        None
    }

    /// Takes a frame that is there already: whether there was one, or none if nothing has come.
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
