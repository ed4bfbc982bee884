//! One HTTP request with any headers, and its response.

use hivemind_testkit::{Page, within};
use serde_json::Value;
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A response as it was received.
pub(crate) struct Response {
    pub(crate) code: u16,
    head: String,
    pub(crate) body: String,
}

impl Response {
    /// A header, by its lower-case name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let pairs = self.head.lines().filter_map(|line| line.split_once(": "));
        pairs.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub(crate) fn json(&self) -> Value {
        json(&self.body)
    }
}

/// Sends a request with these header lines; `host` is the service's own address unless they contain one.
pub(crate) async fn ask(at: SocketAddr, method: &str, path: &str, headers: &[&str], body: &str) -> Response {
    let own = format!("host: {at}");
    let own = (!headers.iter().any(|line| line.starts_with("host:"))).then_some(own.as_str());
    let lines: Vec<&str> = headers.iter().copied().chain(own).collect();
    let (lines, length) = (lines.join("\r\n"), body.len());
    let head =
        format!("{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {length}\r\n{lines}\r\n");
    let exchanged = async {
        let mut connection = TcpStream::connect(at).await.unwrap();
        connection.write_all(format!("{head}\r\n{body}").as_bytes()).await.unwrap();
        let mut text = String::new();
        connection.read_to_string(&mut text).await.unwrap();
        text
    };
    let text = within(path, exchanged).await;
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    let code = head.split(' ').nth(1).expect("a code").parse().unwrap();
    Response { code, head: head.to_owned(), body: body.to_owned() }
}

pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The JSON body of a page that must have status 200.
pub(crate) fn ok_json(page: &Page) -> Value {
    assert_eq!(page.code, 200, "{page:?}");
    json(&page.body)
}
