//! The service's log as it is written, so that a test can wait for what it tells.

use crate::within;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// What was logged, and what will be.
pub struct Log {
    lines: UnboundedReceiver<String>,
    seen: Vec<String>,
}

impl Log {
    /// Reads to the end, whether anyone waits for it or not: a full pipe would stop the service.
    pub fn of(stream: impl AsyncRead + Unpin + Send + 'static) -> Self {
        let (tell, lines) = unbounded_channel();
        tokio::spawn(async move {
            let mut stream = BufReader::new(stream).lines();
            while let Ok(Some(line)) = stream.next_line().await {
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        Self { lines, seen: Vec::new() }
    }

    /// The next line that contains a text. Lines before it are passed over.
    pub async fn next(&mut self, text: &str) -> String {
        let found = async {
            while let Some(line) = self.lines.recv().await {
                self.seen.push(line.clone());
                if line.contains(text) {
                    return Some(line);
                }
            }
            None
        };
        let found = within(text, found).await;
        found.unwrap_or_else(|| panic!("`{text}` was never logged, but:\n{}", self.seen.join("\n")))
    }

    /// A line that was read already and contains a text.
    pub fn told(&self, text: &str) -> Option<&str> {
        self.seen.iter().find(|line| line.contains(text)).map(String::as_str)
    }

    /// All that was written, when the process has ended.
    pub async fn rest(&mut self) -> String {
        while let Some(line) = self.lines.recv().await {
            self.seen.push(line);
        }
        self.seen.join("\n")
    }
}
