//! Line reader with constant memory for files of any size: a line that is too long is
//! reported and skipped, not stored.

use super::recorded_request::LineError;
use std::io::{self, BufRead};

/// Maximum length of a line.
const LONGEST: usize = 1 << 20;

/// One line of the input.
pub struct InputLine<'a> {
    /// Line number, from 1.
    pub number: u64,
    pub text: Result<&'a str, LineError>,
}

/// Reads line by line; skips empty lines.
pub struct InputLines<R> {
    input: R,
    number: u64,
    buffer: Vec<u8>,
    more_at_hand: bool,
}

impl<R: BufRead> InputLines<R> {
    pub fn new(input: R) -> Self {
        Self { input, number: 0, buffer: Vec::new(), more_at_hand: false }
    }

    /// Whether the next line, or a part of it, is buffered.
    pub fn has_more_at_hand(&self) -> bool {
        self.more_at_hand
    }

    pub fn next_line(&mut self) -> io::Result<Option<InputLine<'_>>> {
        loop {
            self.buffer.clear();
            let length = self.read_line()?;
            if length == 0 {
                return Ok(None);
            }
            self.number += 1;
            if length > LONGEST || !self.buffer.trim_ascii().is_empty() {
                let text = if length > LONGEST {
                    Err(LineError::TooLong { longest: LONGEST })
                } else {
                    std::str::from_utf8(self.buffer.trim_ascii()).map_err(|_| LineError::NotText)
                };
                return Ok(Some(InputLine { number: self.number, text }));
            }
        }
    }

    /// Reads to the end of a line, stores at most the maximum length, and returns its full length.
    fn read_line(&mut self) -> io::Result<usize> {
        let mut length = 0_usize;
        loop {
            let chunk = match self.input.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let (taken, ended) = match chunk.iter().position(|byte| *byte == b'\n') {
                Some(end) => (end + 1, true),
                None => (chunk.len(), chunk.is_empty()),
            };
            let kept = taken.min(LONGEST.saturating_sub(self.buffer.len()));
            self.buffer.extend(chunk.iter().take(kept));
            self.more_at_hand = chunk.len() > taken;
            length += taken;
            self.input.consume(taken);
            if ended {
                return Ok(length);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{InputLines, LONGEST, LineError};

    #[test]
    fn line_numbers_match_editors_and_bad_lines_are_skipped() {
        let long = "x".repeat(LONGEST + 1);
        let text = [b"first\n\n  \nfourth\n".as_slice(), long.as_bytes(), b"\n\xff\nlast"].concat();
        let mut lines = InputLines::new(std::io::BufReader::with_capacity(7, text.as_slice()));
        let mut seen = Vec::new();
        while let Some(line) = lines.next_line().unwrap() {
            seen.push((line.number, line.text.map(str::to_owned)));
        }
        let too_long = Err(LineError::TooLong { longest: LONGEST });
        let expected = [
            (1, Ok("first".to_owned())),
            (4, Ok("fourth".to_owned())),
            (5, too_long),
            (6, Err(LineError::NotText)),
            (7, Ok("last".to_owned())),
        ];
        assert_eq!(seen, expected);
        assert!(lines.buffer.capacity() <= 2 * LONGEST, "a long line is not stored");
    }
}
