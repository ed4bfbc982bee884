//! The options of `load`: `--name value` in any order, each with a default.

use std::collections::HashMap;
use std::str::FromStr;
use std::time::Duration;

/// What `load --help` says.
pub const HELP: &str = "\
load grpc|http --addr IP:PORT [options]

Sends requests over loopback and prints one line of JSON: how many, how fast, how they were answered, and their
latency in microseconds. Ends after --n requests or --seconds, whichever is first.

  --conns 4 --streams 32   connections, and calls at a time on each (http: always 1)
  --keys 1                 distinct values of the key, sent in turn
  --values FILE            these values in their place, one a line, sent in turn
  --n 100000               the most requests
  --seconds 60             the most seconds
  --threads 1              threads, each with its share of connections, requests and rate
  --rate R                 open loop: R requests a second whatever the answers do, latency from the time at which
                           a request was due and not from when it could be sent. Without it closed loop: a call
                           begins when the last one on its stream is answered.
  --changing yes           one header with another value in each request (x-request-id)
  --domain D --key K       grpc: the descriptor is (K, value) in domain D
  --path /                 http: what is asked for; the value goes in the header x-key";

/// What is to be sent, and how.
#[derive(Clone)]
pub struct Args {
    /// `grpc` or `http`.
    pub protocol: String,
    /// Where to.
    pub addr: String,
    /// The rules' domain.
    pub domain: String,
    /// The descriptor's key.
    pub key: String,
    /// The path, over HTTP/1.
    pub path: String,
    /// Connections of this thread.
    pub conns: usize,
    /// Calls at a time on each.
    pub streams: usize,
    /// Distinct values of the key.
    pub keys: u64,
    /// The values themselves, where they are given.
    pub values: Vec<String>,
    /// The most requests of this thread.
    pub n: u64,
    /// The most time.
    pub time: Duration,
    /// Requests a second of this thread; none is closed loop.
    pub rate: Option<f64>,
    /// Whether a header changes with each request.
    pub changing: bool,
    /// Threads.
    pub threads: usize,
    /// Which of the threads this is.
    pub thread: usize,
}

impl Args {
    /// Reads a command line.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let protocol = words.next().filter(|word| word == "grpc" || word == "http").ok_or(HELP)?;
        let mut given = HashMap::new();
        while let Some(word) = words.next() {
            let name = word.strip_prefix("--").ok_or(format!("`{word}` is no option\n\n{HELP}"))?;
            given.insert(name.to_owned(), words.next().ok_or(format!("--{name} needs a value"))?);
        }
        let mut text = |name: &str, default: &str| given.remove(name).unwrap_or_else(|| default.to_owned());
        let rate = text("rate", "");
        let streams = text("streams", "32");
        let parsed = Self {
            addr: text("addr", ""),
            domain: text("domain", "bench"),
            key: text("key", "hot"),
            path: text("path", "/"),
            conns: number("conns", &text("conns", "4"))?,
            streams: if protocol == "http" { 1 } else { number("streams", &streams)? },
            keys: number("keys", &text("keys", "1"))?,
            values: lines(&text("values", ""))?,
            n: number("n", &text("n", "100000"))?,
            time: Duration::from_secs(number("seconds", &text("seconds", "60"))?),
            rate: if rate.is_empty() { None } else { Some(number::<f64>("rate", &rate)?) },
            changing: text("changing", "no") == "yes",
            threads: number("threads", &text("threads", "1"))?,
            thread: 0,
            protocol,
        };
        if let Some(unknown) = given.keys().next() {
            return Err(format!("--{unknown} is no option\n\n{HELP}"));
        }
        let least = parsed.conns.min(parsed.streams).min(parsed.threads);
        if least == 0 || parsed.keys == 0 || parsed.n == 0 || parsed.rate.is_some_and(|rate| rate <= 0.0) {
            return Err("all numbers must be above 0".to_owned());
        }
        Ok(parsed)
    }

    /// What one of the threads does: its share, with at least one connection.
    #[must_use]
    pub fn share(&self, thread: usize) -> Self {
        let threads = self.threads as u64;
        Self {
            conns: self.conns.div_ceil(self.threads),
            n: self.n.div_ceil(threads),
            rate: self.rate.map(|rate| rate / self.threads as f64),
            thread,
            ..self.clone()
        }
    }

    /// The key's value in the `index`th request of this thread. Values that follow each other differ in all digits, as names do.
    #[must_use]
    pub fn value(&self, index: u64) -> String {
        let index = index * self.threads as u64 + self.thread as u64;
        let given = usize::try_from(index).ok().and_then(|index| index.checked_rem(self.values.len()));
        if let Some(value) = given.and_then(|index| self.values.get(index)) {
            return value.clone();
        }
        format!("{:016x}", (index % self.keys).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }
}

/// The lines of a file; none if none is named.
fn lines(file: &str) -> Result<Vec<String>, String> {
    if file.is_empty() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(file).map_err(|why| format!("--values: {file}: {why}"))?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn number<T: FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("--{name}: `{text}` is no number"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn parsed(line: &str) -> Result<Args, String> {
        Args::parse(line.split(' ').map(str::to_owned))
    }

    #[test]
    fn the_threads_together_send_each_value_once() {
        let args = parsed("grpc --n 1000 --keys 1000 --threads 4").unwrap();
        let shares = (0..4).map(|thread| args.share(thread));
        let values: HashSet<_> =
            shares.flat_map(|share| (0..share.n).map(|i| share.value(i)).collect::<Vec<_>>()).collect();
        assert_eq!(values.len(), 1000);
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        for line in ["ftp", "grpc --n 0", "grpc --rate -1", "grpc --pace 3", "grpc --n many", "grpc --n"] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
