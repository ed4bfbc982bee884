//! An upstream that records every byte and parses it as strictly as HTTP/1.1 allows: anything that servers
//! could read in two ways is reported.

use super::Message;
use super::message::pair;
use super::raw::OK;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[derive(Default)]
struct Recording {
    requests: Vec<Message>,
    /// Each connection's bytes that were not a complete request, with the reason.
    leftovers: Vec<String>,
}

pub(crate) struct Recorder {
    pub(crate) address: SocketAddr,
    recorded: Arc<Mutex<Recording>>,
}

impl Recorder {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let recorded = Arc::new(Mutex::new(Recording::default()));
        let shared = Arc::clone(&recorded);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                tokio::spawn(record(socket, Arc::clone(&shared)));
            }
        });
        Self { address, recorded }
    }

    /// The requests since the last call, and the rejected bytes, in the order of arrival.
    pub(crate) fn take(&self) -> (Vec<Message>, Vec<String>) {
        let mut recorded = self.recorded.lock().unwrap();
        (std::mem::take(&mut recorded.requests), std::mem::take(&mut recorded.leftovers))
    }
}

async fn record(mut socket: TcpStream, recorded: Arc<Mutex<Recording>>) {
    let mut bytes = Vec::new();
    loop {
        match parse(&bytes) {
            Ok(Some((request, length))) => {
                bytes.drain(..length);
                recorded.lock().unwrap().requests.push(request);
                if socket.write_all(OK.as_bytes()).await.is_err() {
                    return;
                }
            }
            Ok(None) => {
                if socket.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                    // An incomplete request is never answered.
                    return;
                }
            }
            Err(why) => {
                let text = String::from_utf8_lossy(&bytes).into_owned();
                recorded.lock().unwrap().leftovers.push(format!("{why}: {text:?}"));
                return;
            }
        }
    }
}

/// The first request and its length; none if it is incomplete; an error if servers could read it differently.
fn parse(bytes: &[u8]) -> Result<Option<(Message, usize)>, String> {
    let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let head = bytes[..end].to_vec();
    let head = String::from_utf8(head).map_err(|_| "not text".to_owned())?;
    for line in head.split("\r\n") {
        if line.contains(['\r', '\n', '\0']) || line.starts_with([' ', '\t']) {
            return Err(format!("the line {line:?}"));
        }
    }
    for line in head.split("\r\n").skip(1) {
        let name = line.split_once(':').map(|(name, _)| name).filter(|name| !name.is_empty());
        let is_token =
            |name: &str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
        if !name.is_some_and(is_token) {
            return Err(format!("the header {line:?}"));
        }
    }
    let mut request = Message::of_head(&head);
    let words: Vec<&str> = request.start.split(' ').collect();
    if words.len() != 3 || words[2] != "HTTP/1.1" {
        return Err(format!("the line {:?}", request.start));
    }
    let lengths = request.all("content-length");
    let codings = request.all("transfer-encoding");
    let body = end + 4;
    match (&lengths[..], &codings[..]) {
        ([], []) => Ok(Some((request, body))),
        ([length], []) if !length.is_empty() && length.bytes().all(|b| b.is_ascii_digit()) => {
            let length: usize = length.parse().map_err(|_| "a length that is too large".to_owned())?;
            let Some(content) = bytes.get(body..body + length) else { return Ok(None) };
            request.body = content.to_vec();
            Ok(Some((request, body + length)))
        }
        ([], ["chunked"]) => chunked(request, bytes, body),
        other => Err(format!("the lengths {other:?}")),
    }
}

fn chunked(mut request: Message, bytes: &[u8], mut at: usize) -> Result<Option<(Message, usize)>, String> {
    loop {
        let Some((size, next)) = line(bytes, at)? else { return Ok(None) };
        if size.is_empty() || size.len() > 8 || !size.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(format!("the chunk {size:?}"));
        }
        let size = usize::from_str_radix(&size, 16).unwrap();
        at = next;
        if size == 0 {
            break;
        }
        let Some(chunk) = bytes.get(at..at + size + 2) else { return Ok(None) };
        if !chunk.ends_with(b"\r\n") {
            return Err("a chunk that goes on after its end".to_owned());
        }
        request.body.extend(&chunk[..size]);
        at += size + 2;
    }
    loop {
        let Some((trailer, next)) = line(bytes, at)? else { return Ok(None) };
        at = next;
        if trailer.is_empty() {
            return Ok(Some((request, at)));
        }
        request.trailers.push(pair(&trailer));
    }
}

fn line(bytes: &[u8], at: usize) -> Result<Option<(String, usize)>, String> {
    let Some(end) = bytes[at..].windows(2).position(|two| two == b"\r\n") else { return Ok(None) };
    let line = String::from_utf8_lossy(&bytes[at..at + end]).into_owned();
    if line.contains(['\r', '\n', '\0']) {
        Err(format!("the line {line:?}"))
    } else {
        Ok(Some((line, at + end + 2)))
    }
}
