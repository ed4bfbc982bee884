//! Options of `load`: `--name value` in any order, each with a default.

use std::collections::HashMap;
use std::str::FromStr;
use std::time::Duration;

/// The text of `load --help`.
pub const HELP: &str = "\
load grpc|http --addr IP:PORT [options]

Sends requests over loopback and prints one line of JSON: number, rate and results of the requests, and their latency
in microseconds. Stops after --n requests or --seconds, whichever is first.

  --conns 4 --streams 32   connections, and concurrent calls on each (http: always 1)
  --keys 1                 distinct values of the key, sent in turn
  --values FILE            explicit values, one per line, sent in turn
  --n 100000               maximum number of requests
  --seconds 60             maximum duration
  --threads 1              threads, each with its share of connections, requests and rate
  --rate R                 open loop: R requests per second, independent of responses; latency starts when a request
                           is due. Without it closed loop: a call starts after the previous one on its stream.
  --changing yes           a header with a different value in each request (x-request-id)
  --domain D --key K       grpc: the descriptor is (K, value) in domain D
  --path /                 http: the path; the value is sent in the header x-key";

/// What to send, and how.
#[derive(Clone)]
pub struct Args {
    /// `grpc` or `http`.
    pub protocol: String,
    /// The target address.
    pub addr: String,
    /// The rules' domain.
    pub domain: String,
    /// The descriptor's key.
    pub key: String,
    /// The path, over HTTP/1.
    pub path: String,
    /// Connections of this thread.
    pub conns: usize,
    /// Concurrent calls per connection.
    pub streams: usize,
    /// Distinct values of the key.
    pub keys: u64,
    /// Explicit values of the key.
    pub values: Vec<String>,
    /// The maximum of requests of this thread.
    pub n: u64,
    /// The maximum duration.
    pub time: Duration,
    /// Requests per second of this thread; `None` is closed loop.
    pub rate: Option<f64>,
    /// Whether a header changes with each request.
    pub changing: bool,
    /// Threads.
    pub threads: usize,
    /// The index of this thread.
    pub thread: usize,
}

impl Args {
    /// Reads a command line.
    ///
    /// # Errors
    /// Describes the invalid option.
    pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let protocol = words.next().filter(|word| word == "grpc" || word == "http").ok_or(HELP)?;
        let mut given = HashMap::new();
        while let Some(word) = words.next() {
            let name = word.strip_prefix("--").ok_or(format!("unknown option `{word}`\n\n{HELP}"))?;
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
            return Err(format!("unknown option --{unknown}\n\n{HELP}"));
        }
        let least = parsed.conns.min(parsed.streams).min(parsed.threads);
        if least == 0 || parsed.keys == 0 || parsed.n == 0 || parsed.rate.is_some_and(|rate| rate <= 0.0) {
            return Err("all numbers must be above 0".to_owned());
        }
        Ok(parsed)
    }

    /// The share of one thread, with at least one connection.
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

    /// The value of the key in request `index` of this thread. Consecutive values differ in all digits, as names do.
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

/// The lines of a file; empty without a file name.
fn lines(file: &str) -> Result<Vec<String>, String> {
    if file.is_empty() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(file).map_err(|why| format!("--values: {file}: {why}"))?;
    Ok(text.lines().map(str::to_owned).collect())
}

fn number<T: FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("--{name}: `{text}` is not a number"))
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
