//! The output of a process, line by line, so that a test can wait for an event in its log.

use crate::within;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// The lines that were read, and those still to come.
pub struct Log {
    lines: UnboundedReceiver<String>,
    read: Vec<String>,
}

impl Log {
    /// Reads the stream to its end, also if the test does not wait for it: a full pipe would block the process.
    pub fn of(stream: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let (sender, lines) = unbounded_channel();
        tokio::spawn(async move {
            let mut stream = BufReader::new(stream).lines();
            while let Ok(Some(line)) = stream.next_line().await {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { lines, read: Vec::new() }
    }

    /// Returns the next line that contains a text and skips the lines before it.
    pub async fn next(&mut self, text: &str) -> String {
        let found = async {
            while let Some(line) = self.lines.recv().await {
                self.read.push(line.clone());
                if line.contains(text) {
                    return Some(line);
                }
            }
            None
        };
        let found = within(text, found).await;
        found.unwrap_or_else(|| panic!("`{text}` was never logged, but:\n{}", self.read.join("\n")))
    }

    /// A line that contains a text, among those that were read already.
    pub fn previous(&self, text: &str) -> Option<&str> {
        self.read.iter().find(|line| line.contains(text)).map(String::as_str)
    }

    /// All lines, once the process has ended.
    pub async fn rest(&mut self) -> String {
        while let Some(line) = self.lines.recv().await {
            self.read.push(line);
        }
        self.read.join("\n")
    }
}
