//! The messages of a gRPC body, as far as their ends: each has a flag and its length before it. Between two of
//! them whoever sends may have nothing to say for long; within one it is only slow.

/// A flag, and four bytes of length.
const PREFIX: u8 = 5;

/// Where in its messages a body is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Messages {
    /// How much of a prefix is known, and the length as far as it is.
    prefix: u8,
    length: u32,
    /// What is left of the message.
    left: u32,
}

impl Messages {
    /// So many bytes more of the body.
    pub(super) fn take(&mut self, mut bytes: &[u8]) {
        while let Some((&byte, rest)) = bytes.split_first() {
            if self.left > 0 {
                let now = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
                self.left = self.left.saturating_sub(u32::try_from(now).unwrap_or(u32::MAX));
                bytes = bytes.get(now..).unwrap_or_default();
                continue;
            }
            // The flag is shifted out by the four bytes behind it.
            self.length = self.length << 8 | u32::from(byte);
            self.prefix += 1;
            if self.prefix == PREFIX {
                (self.prefix, self.left) = (0, self.length);
            }
            bytes = rest;
        }
    }

    /// Whether no message has begun that is not whole.
    pub(super) const fn is_between(self) -> bool {
        self.prefix == 0 && self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Seen failing on: a message that is a byte longer than its length.
    #[test]
    fn messages_end_where_their_lengths_say_however_they_are_cut() {
        let mut body = Vec::new();
        let mut ends = vec![0];
        for (flag, size) in [(0, 3), (1, 0), (0, 300), (255, 1)] {
            body.push(flag);
            body.extend(u32::try_from(size).unwrap().to_be_bytes());
            body.resize(body.len() + size, 0xFF);
            ends.push(body.len());
        }
        for step in [1, 2, 5, 7, 64, body.len()] {
            let (mut messages, mut seen) = (Messages::default(), 0);
            for part in body.chunks(step) {
                messages.take(part);
                seen += part.len();
                assert_eq!(messages.is_between(), ends.contains(&seen), "{seen} by {step}");
            }
        }
    }
}
