//! A minimal HTTP/1.1 client for the service's pages: one request per connection.

use crate::within;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// A response.
#[derive(Debug)]
pub struct Page {
    pub code: u16,
    head: String,
    pub body: String,
}

impl Page {
    /// A header, by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let pairs = self.head.lines().filter_map(|line| line.split_once(": "));
        pairs.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The value of a series on the metrics page.
    pub fn metric(&self, series: &str) -> Option<u64> {
        let line = self
            .body
            .lines()
            .find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
    }
}

/// Sends a GET request.
pub async fn get(address: std::net::SocketAddr, path: &str) -> Page {
    let connection = TcpStream::connect(address).await.unwrap();
    within("a page", exchange(connection, "GET", path, "")).await
}

/// Sends a POST request with a text body.
pub async fn post(address: std::net::SocketAddr, path: &str, body: &str) -> Page {
    let connection = TcpStream::connect(address).await.unwrap();
    within("a page", exchange(connection, "POST", path, body)).await
}

/// One request on a connection of any kind.
pub async fn exchange(
    mut connection: impl AsyncRead + AsyncWrite + Unpin,
    method: &str,
    path: &str,
    body: &str,
) -> Page {
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
    );
    connection.write_all(head.as_bytes()).await.unwrap();
    connection.write_all(body.as_bytes()).await.unwrap();
    let mut text = String::new();
    connection.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").expect("a head and a body");
    let code = head.split(' ').nth(1).expect("a code").parse().unwrap();
    Page { code, head: head.to_owned(), body: body.to_owned() }
}
