//! Message boundaries of a gRPC body: each message has a prefix with a flag and its length. Between two messages a
//! sender may pause for long; within one it is only slow.

/// A flag and four bytes of length.
const PREFIX: u8 = 5;

/// The position of a body within its messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GrpcMessages {
    /// The number of prefix bytes read, and the length read so far.
    prefix: u8,
    length: u32,
    /// Bytes left of the message.
    left: u32,
}

impl GrpcMessages {
    /// Advances by the next bytes of the body.
    pub(super) fn take(&mut self, mut bytes: &[u8]) {
        while let Some((&byte, rest)) = bytes.split_first() {
            if self.left > 0 {
                let now = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
                self.left = self.left.saturating_sub(u32::try_from(now).unwrap_or(u32::MAX));
                bytes = bytes.get(now..).unwrap_or_default();
                continue;
            }
            // The four bytes behind it shift the flag out.
            self.length = self.length << 8 | u32::from(byte);
            self.prefix += 1;
            if self.prefix == PREFIX {
                (self.prefix, self.left) = (0, self.length);
            }
            bytes = rest;
        }
    }

    /// Whether no message is incomplete.
    pub(super) const fn is_between(self) -> bool {
        self.prefix == 0 && self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Fails when a message is one byte longer than its length.
    #[test]
    fn grpc_messages_end_at_their_lengths_in_any_split() {
        let mut body = Vec::new();
        let mut ends = vec![0];
        for (flag, size) in [(0, 3), (1, 0), (0, 300), (255, 1)] {
            body.push(flag);
            body.extend(u32::try_from(size).unwrap().to_be_bytes());
            body.resize(body.len() + size, 0xFF);
            ends.push(body.len());
        }
        for step in [1, 2, 5, 7, 64, body.len()] {
            let (mut messages, mut seen) = (GrpcMessages::default(), 0);
            for part in body.chunks(step) {
                messages.take(part);
                seen += part.len();
                assert_eq!(messages.is_between(), ends.contains(&seen), "{seen} by {step}");
            }
        }
    }
}
